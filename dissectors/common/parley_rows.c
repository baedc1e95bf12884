/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parley_rows.h"

void parley_cell_set_text(stat_tap_table_item_type* cell, char* text) {
  cell->type = TABLE_ITEM_STRING;
  cell->value.string_value = text;
}

void parley_cell_set_number(stat_tap_table_item_type* cell, guint64 number) {
  cell->type = TABLE_ITEM_UINT;
  cell->value.uint_value = (guint)MIN(number, G_MAXUINT);
}

void parley_cell_free(stat_tap_table_item_type* cell) {
  if (cell->type == TABLE_ITEM_STRING) g_free((char*)cell->value.string_value);
  cell->type = TABLE_ITEM_NONE;
}

void parley_rows_reset(parley_rows* rows, stat_tap_table* table) {
  for (guint row = 0; row < table->num_elements; ++row) {
    for (guint c = 0; c < table->num_fields; ++c) parley_cell_free(&table->elements[row][c]);
    g_free(table->elements[row]);
  }
  table->num_elements = 0;
  if (rows->row_of != NULL) g_hash_table_remove_all(rows->row_of);
}

void parley_rows_init(parley_rows* rows, stat_tap_table_ui* ui) {
  stat_tap_table* const table = stat_tap_find_table(ui, rows->name);
  if (rows->row_of == NULL) rows->row_of = g_hash_table_new(NULL, NULL);
  g_hash_table_remove_all(rows->row_of);
  if (table != NULL)
    parley_rows_reset(rows, table);
  else
    stat_tap_add_table(ui, stat_tap_init_table(rows->name, (int)rows->columns, 0, NULL));
}

tap_packet_status parley_rows_packet(parley_rows* rows, void* data, const void* connection, gboolean is_last) {
  stat_tap_table* const table = g_array_index(((stat_data_t*)data)->stat_tap_data->tables, stat_tap_table*, 0);
  guint row = GPOINTER_TO_UINT(g_hash_table_lookup(rows->row_of, connection));
  if (row != 0 && !is_last) return TAP_PACKET_DONT_REDRAW;
  if (row == 0) {
    row = table->num_elements + 1;
    g_hash_table_insert(rows->row_of, (gpointer)connection, GUINT_TO_POINTER(row));
  } else {
    for (guint c = 0; c < table->num_fields; ++c) parley_cell_free(stat_tap_get_field_data(table, row - 1, c));
  }
  stat_tap_table_item_type* const cells = g_new0(stat_tap_table_item_type, rows->columns);
  rows->fill(connection, cells);
  stat_tap_init_table_row(table, row - 1, rows->columns, cells);
  g_free(cells);
  return TAP_PACKET_REDRAW;
}

void parley_rows_free_cell(stat_tap_table* table _U_, guint row _U_, guint column _U_, stat_tap_table_item_type* cell) {
  parley_cell_free(cell);
}
