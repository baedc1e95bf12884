/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One line for each RoCE connection, from the tap "parley_roce": `tshark -q -z parley,roce`, and a table in the
 * Statistics menu. */
#include "parley_ib.h"

#include <epan/stat_tap_ui.h>
#include <epan/tap.h>
#include <string.h>
#include <wsutil/inet_addr.h>

/* X(name, type, alignment, title). */
#define PARLEY_COLUMNS(X)                  \
  X(number, STRING, RIGHT, "Conn")         \
  X(initiator, STRING, LEFT, "Initiator")  \
  X(responder, STRING, LEFT, "Responder")  \
  X(service, STRING, LEFT, "Service")      \
  X(transport, STRING, LEFT, "Transport")  \
  X(first, UINT, RIGHT, "First frame")     \
  X(result, STRING, LEFT, "Result")        \
  X(outcome, STRING, LEFT, "Outcome")      \
  X(packets_out, UINT, RIGHT, "Packets>")  \
  X(packets_back, UINT, RIGHT, "<Packets") \
  X(octets_out, UINT, RIGHT, "Octets>")    \
  X(octets_back, UINT, RIGHT, "<Octets")   \
  X(naks, UINT, RIGHT, "NAKs")             \
  X(rnr, UINT, RIGHT, "RNR NAKs")          \
  X(errors, UINT, RIGHT, "Errors")         \
  X(warnings, UINT, RIGHT, "Warnings")

enum {
#define PARLEY_X(name, type, align, title) column_##name,
  PARLEY_COLUMNS(PARLEY_X)
#undef PARLEY_X
      column_count
};

static int tap = -1;
static GHashTable* rows; /* connection to its row, from 1 */

void parley_ib_tap(packet_info* pinfo, const parley_ib_view* view) {
  if (view->flow != NULL && have_tap_listener(tap)) tap_queue_packet(tap, pinfo, view->flow);
}

static char* end_of(const parley_engine_connection* c, guint side) {
  static const guint8 v4[12] = {[10] = 0xFF, [11] = 0xFF};
  char text[WS_INET6_ADDRSTRLEN];
  if (memcmp(c->address[side], v4, sizeof v4) == 0)
    ws_inet_ntop4(c->address[side] + sizeof v4, text, sizeof text);
  else
    ws_inet_ntop6(c->address[side], text, sizeof text);
  return c->qpn[side] == 0 ? g_strdup(text) : g_strdup_printf("%s QP=0x%06x", text, c->qpn[side]);
}

static const char* outcome_of(const parley_engine_connection* c) {
  switch (c->outcome) {
    case PARLEY_ENGINE_OPEN: return "";
    case PARLEY_ENGINE_ESTABLISHED: return "established";
    case PARLEY_ENGINE_REJECTED: return "rejected";
    case PARLEY_ENGINE_FAILED: return "failed";
    case PARLEY_ENGINE_INCOMPLETE: return "incomplete";
    case PARLEY_ENGINE_NOT_CAPTURED: return "handshake not captured";
  }
  return "";
}

static void set_text(stat_tap_table_item_type* cell, char* text) {
  cell->type = TABLE_ITEM_STRING;
  cell->value.string_value = text;
}

static void set_number(stat_tap_table_item_type* cell, guint64 number) {
  cell->type = TABLE_ITEM_UINT;
  cell->value.uint_value = (guint)MIN(number, G_MAXUINT);
}

static void fill_row(const parley_engine_connection* c, stat_tap_table_item_type row[column_count]) {
  memset(row, 0, column_count * sizeof row[0]);
  set_text(&row[column_number], c->number == 0 ? g_strdup("-") : g_strdup_printf("%u", c->number));
  set_text(&row[column_initiator], end_of(c, PARLEY_INITIATOR));
  set_text(&row[column_responder], end_of(c, PARLEY_RESPONDER));
  set_text(&row[column_service], g_strdup(c->service_name));
  set_text(&row[column_transport], g_strdup(c->service_known ? parley_ib_transport_words(c->service) : "-"));
  set_number(&row[column_first], c->first_frame);
  set_text(&row[column_result], g_strdup(c->verdict[0] != '\0' || c->errors == 0 ? c->verdict : "failed"));
  set_text(&row[column_outcome], g_strdup(outcome_of(c)));
  set_number(&row[column_packets_out], c->packets[PARLEY_INITIATOR]);
  set_number(&row[column_packets_back], c->packets[PARLEY_RESPONDER]);
  set_number(&row[column_octets_out], c->octets[PARLEY_INITIATOR]);
  set_number(&row[column_octets_back], c->octets[PARLEY_RESPONDER]);
  set_number(&row[column_naks], c->naks);
  set_number(&row[column_rnr], c->rnr_naks);
  set_number(&row[column_errors], c->errors);
  set_number(&row[column_warnings], c->warnings);
}

static void free_cell(stat_tap_table* table _U_, guint row _U_, guint column _U_, stat_tap_table_item_type* cell) {
  if (cell->type == TABLE_ITEM_STRING) g_free((char*)cell->value.string_value);
  cell->type = TABLE_ITEM_NONE;
}

static void table_reset(stat_tap_table* table) {
  for (guint row = 0; row < table->num_elements; ++row) {
    for (guint c = 0; c < table->num_fields; ++c) free_cell(table, row, c, &table->elements[row][c]);
    g_free(table->elements[row]);
  }
  table->num_elements = 0;
  if (rows != NULL) g_hash_table_remove_all(rows);
}

static void table_init(stat_tap_table_ui* ui) {
  static const char name[] = "RoCE connections";
  stat_tap_table* const table = stat_tap_find_table(ui, name);
  if (rows == NULL) rows = g_hash_table_new(NULL, NULL);
  g_hash_table_remove_all(rows);
  if (table != NULL)
    table_reset(table);
  else
    stat_tap_add_table(ui, stat_tap_init_table(name, column_count, 0, NULL));
}

/* The first packet of a connection makes its row; its last packet updates it. */
static tap_packet_status table_packet(void* data, packet_info* pinfo, epan_dissect_t* edt _U_, const void* tapped,
                                      tap_flags_t flags _U_) {
  const parley_engine_connection* const c = (const parley_engine_connection*)tapped;
  stat_tap_table* const table = g_array_index(((stat_data_t*)data)->stat_tap_data->tables, stat_tap_table*, 0);
  guint row = GPOINTER_TO_UINT(g_hash_table_lookup(rows, c));
  if (row != 0 && pinfo->num < c->last_frame) return TAP_PACKET_DONT_REDRAW;
  if (row == 0) {
    row = table->num_elements + 1;
    g_hash_table_insert(rows, (gpointer)c, GUINT_TO_POINTER(row));
  } else {
    for (guint k = 0; k < table->num_fields; ++k)
      free_cell(table, row - 1, k, stat_tap_get_field_data(table, row - 1, k));
  }
  stat_tap_table_item_type cells[column_count];
  fill_row(c, cells);
  stat_tap_init_table_row(table, row - 1, column_count, cells);
  return TAP_PACKET_REDRAW;
}

void parley_ib_stat_register(void) {
  static stat_tap_table_item fields[] = {
#define PARLEY_FORMAT_UINT "%u"
#define PARLEY_FORMAT_STRING "%s"
#define PARLEY_X(name, type, align, title) {TABLE_ITEM_##type, TAP_ALIGN_##align, title, PARLEY_FORMAT_##type},
      PARLEY_COLUMNS(PARLEY_X)
#undef PARLEY_X
  };
  static tap_param parameters[] = {{PARAM_FILTER, "filter", "Filter", NULL, TRUE}};
  static stat_tap_table_ui ui = {
      .group = REGISTER_PACKET_STAT_GROUP_UNSORTED,
      .title = "RoCE Connections",
      .tap_name = "parley_roce",
      .cli_string = "parley,roce",
      .stat_tap_init_cb = table_init,
      .packet_func = table_packet,
      .stat_tap_reset_table_cb = table_reset,
      .stat_tap_free_table_item_cb = free_cell,
      .nfields = array_length(fields),
      .fields = fields,
      .nparams = array_length(parameters),
      .params = parameters,
  };
  tap = register_tap("parley_roce");
  register_stat_tap_table_ui(&ui);
}
