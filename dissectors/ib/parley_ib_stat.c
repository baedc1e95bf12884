/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One line for each RoCE connection, from the tap "parley_roce": `tshark -q -z parley,roce`, and a table in the
 * Statistics menu. */
#include "parley_ib.h"
#include "parley_rows.h"

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

static void fill_row(const void* connection, stat_tap_table_item_type* row) {
  const parley_engine_connection* const c = (const parley_engine_connection*)connection;
  parley_cell_set_text(&row[column_number], c->number == 0 ? g_strdup("-") : g_strdup_printf("%u", c->number));
  parley_cell_set_text(&row[column_initiator], end_of(c, PARLEY_INITIATOR));
  parley_cell_set_text(&row[column_responder], end_of(c, PARLEY_RESPONDER));
  parley_cell_set_text(&row[column_service], g_strdup(c->service_name));
  parley_cell_set_text(&row[column_transport],
                       g_strdup(c->service_known ? parley_ib_transport_words(c->service) : "-"));
  parley_cell_set_number(&row[column_first], c->first_frame);
  parley_cell_set_text(&row[column_result], g_strdup(c->verdict[0] != '\0' || c->errors == 0 ? c->verdict : "failed"));
  parley_cell_set_text(&row[column_outcome], g_strdup(outcome_of(c)));
  parley_cell_set_number(&row[column_packets_out], c->packets[PARLEY_INITIATOR]);
  parley_cell_set_number(&row[column_packets_back], c->packets[PARLEY_RESPONDER]);
  parley_cell_set_number(&row[column_octets_out], c->octets[PARLEY_INITIATOR]);
  parley_cell_set_number(&row[column_octets_back], c->octets[PARLEY_RESPONDER]);
  parley_cell_set_number(&row[column_naks], c->naks);
  parley_cell_set_number(&row[column_rnr], c->rnr_naks);
  parley_cell_set_number(&row[column_errors], c->errors);
  parley_cell_set_number(&row[column_warnings], c->warnings);
}

static parley_rows rows = {"RoCE connections", column_count, fill_row, NULL};

static void table_init(stat_tap_table_ui* ui) { parley_rows_init(&rows, ui); }
static void table_reset(stat_tap_table* table) { parley_rows_reset(&rows, table); }

static tap_packet_status table_packet(void* data, packet_info* pinfo, epan_dissect_t* edt _U_, const void* tapped,
                                      tap_flags_t flags _U_) {
  const parley_engine_connection* const c = (const parley_engine_connection*)tapped;
  return parley_rows_packet(&rows, data, c, pinfo->num >= c->last_frame);
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
      .stat_tap_free_table_item_cb = parley_rows_free_cell,
      .nfields = array_length(fields),
      .fields = fields,
      .nparams = array_length(parameters),
      .params = parameters,
  };
  tap = register_tap("parley_roce");
  register_stat_tap_table_ui(&ui);
}
