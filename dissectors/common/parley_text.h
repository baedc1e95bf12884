/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Builds the text of a tree line or of the info column piece by piece. Each FPDU has three such lines, and printf()
 * formatting took a third of the time to show an FPDU. */
#ifndef PARLEY_TEXT_H
#define PARLEY_TEXT_H

#include <epan/column-utils.h>
#include <epan/proto.h>

/* Initialize it with {0}. Text that does not fit is cut off, as in Wireshark's own labels. */
typedef struct parley_text {
  char text[ITEM_LABEL_LENGTH];
  guint length;
} parley_text;

void parley_text_add(parley_text* line, const char* text);
/* Appends `before` and the number. */
void parley_text_number(parley_text* line, const char* before, guint64 number);
/* Appends `before`, 0x and at least `digits` digits. */
void parley_text_hex(parley_text* line, const char* before, guint64 number, int digits);

/* Label of a time that is encoded as an exponent, 4.096 us * 2^code (IBA §12.7.4, §13.4.6.2 and others): "20
 * (4.294967296 s)". */
void parley_timeout_label(gchar* label, guint32 code);

/* Appends to the info column. */
void parley_info_add(column_info* columns, const char* words);

#endif
