/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parley_text.h"

#include <string.h>
#include <wsutil/to_str.h>

void parley_text_add(parley_text* line, const char* text) {
  const gsize room = sizeof line->text - 1 - line->length;
  const gsize length = MIN(strlen(text), room);
  memcpy(line->text + line->length, text, length);
  line->length += (guint)length;
  line->text[line->length] = '\0';
}

void parley_text_number(parley_text* line, const char* before, guint64 number) {
  char digits[24]; /* the 20 of 2^64 - 1 */
  digits[sizeof digits - 1] = '\0';
  parley_text_add(line, before);
  parley_text_add(line, uint64_to_str_back(digits + sizeof digits - 1, number));
}

void parley_text_hex(parley_text* line, const char* before, guint64 number, int digits) {
  char octets[24]; /* 0x and 16 digits */
  octets[sizeof octets - 1] = '\0';
  parley_text_add(line, before);
  parley_text_add(line, hex64_to_str_back_len(octets + sizeof octets - 1, number, digits));
}

void parley_timeout_label(gchar* label, guint32 code) {
  if (code > 40) { /* more than 52 days: not a meaningful time, and larger codes would overflow */
    g_snprintf(label, ITEM_LABEL_LENGTH, "%u", code);
    return;
  }
  const guint64 ns = G_GUINT64_CONSTANT(4096) << code;
  const guint64 unit = ns < 1000000 ? 1000 : ns < 1000000000 ? 1000000 : 1000000000;
  int digits = unit == 1000 ? 3 : unit == 1000000 ? 6 : 9;
  guint64 fraction = ns % unit;
  for (; digits > 1 && fraction % 10 == 0; digits--) fraction /= 10;
  g_snprintf(label, ITEM_LABEL_LENGTH, "%u (%" G_GUINT64_FORMAT ".%0*" G_GUINT64_FORMAT " %s)", code, ns / unit, digits,
             fraction,
             unit == 1000      ? "us"
             : unit == 1000000 ? "ms"
                               : "s");
}

void parley_info_add(column_info* columns, const char* words) {
  if (!col_get_writable(columns, COL_INFO)) return;
  const char* const before = col_get_text(columns, COL_INFO);
  const gsize length = before == NULL ? 0 : strlen(before);
  /* The text of Wireshark's TCP analysis ends with a blank. */
  if (length == 0)
    col_add_str(columns, COL_INFO, words);
  else if (before[length - 1] == ' ')
    col_append_str(columns, COL_INFO, words);
  else
    col_append_sep_str(columns, COL_INFO, ", ", words);
}
