/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A table of connections in Wireshark's Statistics menu: a row for each, in the order in which they are first seen. */
#ifndef PARLEY_ROWS_H
#define PARLEY_ROWS_H

#include <epan/packet.h>
#include <epan/stat_tap_ui.h>

typedef struct {
  const char* name;
  guint columns;
  /* Writes all cells, which are zero. */
  void (*fill)(const void* connection, stat_tap_table_item_type* row);
  GHashTable* row_of; /* connection to its row, from 1 */
} parley_rows;

/* The cell takes over the text. */
void parley_cell_set_text(stat_tap_table_item_type* cell, char* text);
/* A larger number is G_MAXUINT. */
void parley_cell_set_number(stat_tap_table_item_type* cell, guint64 number);
void parley_cell_free(stat_tap_table_item_type* cell);

/* For the callbacks of stat_tap_table_ui. */
void parley_rows_init(parley_rows* rows, stat_tap_table_ui* ui);
void parley_rows_reset(parley_rows* rows, stat_tap_table* table);
/* Adds the row of a connection when it is first seen, and writes it again with its last packet (`is_last`). `data` is the
 * callback's. */
tap_packet_status parley_rows_packet(parley_rows* rows, void* data, const void* connection, gboolean is_last);
void parley_rows_free_cell(stat_tap_table* table, guint row, guint column, stat_tap_table_item_type* cell);

#endif
