/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text for a line of the tree or the info column, put together piece by piece. Each FPDU has three such lines, and
 * printf's formats were a third of the time that it took to show it. */
#ifndef PARLEY_TEXT_H
#define PARLEY_TEXT_H

#include <epan/column-utils.h>
#include <epan/proto.h>

/* Begins as {0}; what does not fit is left out, as Wireshark's own labels do. */
typedef struct parley_text {
  char text[ITEM_LABEL_LENGTH];
  guint length;
} parley_text;

void parley_text_add(parley_text* line, const char* text);
/* `before` is put in front of the number. */
void parley_text_number(parley_text* line, const char* before, guint64 number);
/* 0x and at least so many digits. */
void parley_text_hex(parley_text* line, const char* before, guint64 number, int digits);

/* A time that is an exponent, 4.096 us * 2^code (IBA §12.7.4, §13.4.6.2 and others): "20 (4.294967296 s)". */
void parley_timeout_label(gchar* label, guint32 code);

/* Appends to what the info column has. */
void parley_info_add(column_info* columns, const char* words);

#endif
