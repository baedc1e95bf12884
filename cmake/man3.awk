# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# A manual page in section 3 for each function of parley.h, xrc.h and mad.h, from the comment above it.
#   awk -v out=DIRECTORY -v version=0.1.0 -f man3.awk include/parley/{parley,xrc,mad}.h

function plain(text) { # what man(7) would take for more than text
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  if (text ~ /^[.']/) text = "\\&" text
  return text
}

function header(path) {
  sub(/.*\/parley\//, "parley/", path)
  return path
}

function page(prototype, name, file, i, n, part, summary, errors) {
  match(prototype, /parley_[a-z0-9_]+\(/)
  name = substr(prototype, RSTART, RLENGTH - 1)
  sub(/^PARLEY_API /, "", prototype)
  file = out "/" name ".3"
  n = split(comment, part, "\n\n")
  summary = part[1]
  sub(/\.$/, "", summary)
  print ".TH " toupper(plain(name)) " 3 \"\" \"Parley " version "\" \"Parley\"" >file
  print ".SH NAME\n" plain(name) " \\- " plain(tolower(substr(summary, 1, 1)) substr(summary, 2)) >file
  print ".SH LIBRARY\nParley for C (libparley, \\-lparley)" >file
  print ".SH SYNOPSIS\n.nf\n.B #include <" header(FILENAME) ">\n.PP\n.B " plain(prototype) "\n.fi" >file
  if (n > 1 && part[2] !~ /^Errors: /) print ".SH DESCRIPTION" >file
  for (i = 2; i <= n; ++i) {
    if (part[i] ~ /^Errors: /) {
      errors = substr(part[i], 9)
      continue
    }
    if (i > 2) print ".PP" >file
    print plain(part[i]) >file
  }
  if (prototype ~ /^int /) {
    print ".SH RETURN VALUE\n0 or a count as described; below 0 one of the errors, negated. parley_last_error(3) has the sentence." >file
    print ".SH ERRORS\n" plain(errors) >file
  }
  print ".SH SEE ALSO\n.BR libparley (3), \n.BR parley_strerror (3), \n.BR parley_last_error (3)" >file
  close(file)
}

# The comment at the top of the first file is the page of the library.
NR == 2, /\*\// {
  line = $0
  sub(/^ *\/?\* ?/, "", line)
  sub(/ *\*\/$/, "", line)
  overview = overview line "\n"
  next
}

/^\/\*\* / { comment = ""; inside = 1 }
inside {
  line = $0
  last = line ~ /\*\/$/
  sub(/^\/\*\* /, "", line)
  sub(/^ \* ?/, "", line)
  sub(/ *\*\/$/, "", line)
  if (line == "") comment = comment "\n\n"
  else comment = comment (comment == "" || comment ~ /\n$/ ? "" : " ") line
  if (last) inside = 0
  next
}

/^PARLEY_API / { prototype = "" ; declaring = 1 }
declaring {
  line = $0
  sub(/^ +/, "", line)
  prototype = prototype (prototype == "" ? "" : " ") line
  if (line ~ /;$/) {
    declaring = 0
    match(prototype, /parley_[a-z0-9_]+\(/)
    functions = functions (functions == "" ? "" : ",\n") ".BR " substr(prototype, RSTART, RLENGTH - 1) " (3)"
    page(prototype)
  }
}

END {
  file = out "/libparley.3"
  print ".TH LIBPARLEY 3 \"\" \"Parley " version "\" \"Parley\"" >file
  print ".SH NAME\nlibparley \\- RDMA connections for C programs" >file
  print ".SH SYNOPSIS\n.nf\n.B #include <parley/parley.h>\n.PP\n.B cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs parley\\-c)\n.fi" >file
  print ".SH DESCRIPTION" >file
  gsub(/\n\n/, "\n.PP\n", overview)
  print plain(overview) >file
  print ".SH SEE ALSO\n" functions >file
}
