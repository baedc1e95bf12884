# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# A manual page from what `parley help COMMAND` prints, for the command and each of its subcommands, one after the other.
#   awk -v page=parley-sim -v version=0.1.0 -f manual.awk

function plain(text) { # what man(7) would take for more than text
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  if (text ~ /^[.']/) text = "\\&" text
  return text
}

function close_literal() {
  if (literal) print ".fi"
  literal = 0
}

# "  --size N=64    Octets of each message": the words of an option, then two blanks or a line of its own.
function item(text, at) {
  sub(/^ +/, "", text)
  at = match(text, /  +/)
  print ".TP"
  print ".B " plain(at ? substr(text, 1, at - 1) : text)
  if (at) print plain(substr(text, at + RLENGTH))
}

BEGIN { first = 1 }

# The line before "Usage:" says what the command is for.
/^Usage: / {
  close_literal()
  usage = substr($0, 8)
  if (first) {
    print ".TH " toupper(plain(page)) " 1 \"\" \"Parley " version "\" \"Parley\""
    print ".SH NAME\n" plain(page) " \\- " plain(before)
    print ".SH SYNOPSIS\n.B " plain(usage)
    print ".SH DESCRIPTION"
  } else {
    name = usage
    sub(/ [[].*/, "", name)
    print ".SH \"" plain(toupper(name)) "\"\n" plain(before) ".\n.PP\n.B " plain(usage)
  }
  first = 0
  before = ""
  next
}

# The next command's line waits here until its "Usage:" has come.
{
  if (before != "") {
    if (before ~ /^ /) item(before)
    else print plain(before)
    before = ""
  }
}
/^[A-Z][A-Za-z ]*:$/ || /^[[]Option Group: / {
  close_literal()
  sub(/^[[]Option Group: /, "")
  sub(/[]:]$/, "")
  print ".SS " plain($0)
  if ($0 == "Examples") {
    print ".nf"
    literal = 1
  }
  next
}
/^ *$/ { close_literal(); print ".PP"; next }
literal && /^ / { print plain(substr($0, 3)); next }
{ close_literal() }
/^            / { sub(/^ +/, ""); print plain($0); next } # an option's text, below it
/^  / && /^ +[[]/ { sub(/^ +/, ""); print ".PP\n" plain($0); next }
/^  +Options:$/ { next }
/^  / { item($0); next }
{ before = $0 }

END {
  close_literal()
  if (before != "") print plain(before)
  print ".SH \"SEE ALSO\"\n.BR parley (1)"
}
