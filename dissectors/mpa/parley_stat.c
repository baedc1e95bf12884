/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One line per MPA connection: `tshark -q -z parley,conn[,FILTER]` prints them, and Wireshark shows the same in a table
 * of its Statistics menu. Both use the tap "parley". RFC 5044 §7.1, RFC 6581 §9. */
#include "parley_mpa.h"
#include "parley_rows.h"

#include <epan/to_str.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wsutil/report_message.h>

/* X(name, type, alignment, title). */
#define PARLEY_COLUMNS(X)                       \
  X(number, UINT, RIGHT, "Conn")                \
  X(initiator, STRING, LEFT, "Initiator")       \
  X(responder, STRING, LEFT, "Responder")       \
  X(revision, STRING, LEFT, "Rev")              \
  X(crc, STRING, LEFT, "CRC")                   \
  X(markers, STRING, LEFT, "Markers")           \
  X(rtr, STRING, LEFT, "RTR")                   \
  X(depth, STRING, LEFT, "IRD/ORD")             \
  X(result, STRING, LEFT, "Result")             \
  X(outcome, STRING, LEFT, "Outcome")           \
  X(fpdus_out, UINT, RIGHT, "FPDUs>")           \
  X(fpdus_back, UINT, RIGHT, "<FPDUs")          \
  X(messages_out, UINT, RIGHT, "Msgs>")         \
  X(messages_back, UINT, RIGHT, "<Msgs")        \
  X(tcp, STRING, RIGHT, "TCP ms")               \
  X(request, STRING, RIGHT, "Request ms")       \
  X(reply, STRING, RIGHT, "Reply ms")           \
  X(first_fpdu, STRING, RIGHT, "First FPDU ms") \
  X(errors, UINT, RIGHT, "Errors")              \
  X(warnings, UINT, RIGHT, "Warnings")          \
  X(ended, STRING, LEFT, "Ended by (frame)")

enum {
#define PARLEY_X(name, type, align, title) column_##name,
  PARLEY_COLUMNS(PARLEY_X)
#undef PARLEY_X
      column_count
};

static char* endpoint(const parley_conn* conn, int side) {
  char* host = address_to_str(NULL, &conn->addr[side]);
  char* text = conn->addr[side].type == AT_IPv6 ? g_strdup_printf("[%s]:%u", host, conn->port[side])
                                                : g_strdup_printf("%s:%u", host, conn->port[side]);
  wmem_free(NULL, host);
  return text;
}

static char* revision(const parley_conn* conn) {
  const parley_startup *q = &conn->request, *p = &conn->reply;
  if (q->frame == 0 && p->frame == 0) return g_strdup("-");
  if (q->frame != 0 && p->frame != 0 && q->revision != p->revision)
    return g_strdup_printf("%u, %u", q->revision, p->revision);
  return g_strdup_printf("%u", q->frame != 0 ? q->revision : p->revision);
}

static gboolean agreed(const parley_conn* conn) {
  return conn->outcome == PARLEY_ESTABLISHED || (conn->reply.frame != 0 && conn->outcome != PARLEY_REJECTED) ||
         conn->side[0].fpdus + conn->side[1].fpdus > 0;
}

static char* both(const parley_conn* conn, gboolean by_initiator, gboolean by_responder) {
  if (!agreed(conn)) return g_strdup("-");
  if (by_initiator && by_responder) return g_strdup("yes");
  if (!by_initiator && !by_responder) return g_strdup("no");
  return g_strdup(by_initiator ? ">" : "<");
}

static char* rtr(const parley_conn* conn) {
  static const char* const names[] = {"no", "Rtr frame", "Send", "Write", "Read"};
  if (conn->rtr != PARLEY_RTR_NONE && conn->rtr < array_length(names)) return g_strdup(names[conn->rtr]);
  if (!agreed(conn)) return g_strdup("-");
  if (conn->rtr_agreed == 0 && !conn->peer_to_peer) return g_strdup("no");
  GString* text = g_string_new("none of ");
  const char* comma = "";
  for (guint kind = PARLEY_RTR_FRAME; kind < array_length(names); ++kind) {
    if ((conn->rtr_agreed & (1u << kind)) == 0) continue;
    g_string_append_printf(text, "%s%s", comma, names[kind]);
    comma = ",";
  }
  if (*comma == '\0') g_string_append(text, "no kind");
  return g_string_free(text, FALSE);
}

/* The initiator's depth after negotiation: RFC 6581 §9.1. */
static char* depth(const parley_conn* conn) {
  const parley_startup *const q = &conn->request, *const r = &conn->reply;
  const guint none = PARLEY_MPA_ENH_NOT_NEGOTIATED, mask = PARLEY_MPA_ENH_DEPTH_MASK;
  if (!q->enhanced || !r->enhanced || (r->flags & PARLEY_MPA_FLAG_R) != 0) return g_strdup("-");
  const guint q_ird = q->ird & mask, q_ord = q->ord & mask, r_ird = r->ird & mask, r_ord = r->ord & mask;
  return g_strdup_printf("%u/%u", q_ird != none && r_ord != none ? MAX(q_ird, r_ord) : q_ird,
                         q_ord != none && r_ird != none ? MIN(q_ord, r_ird) : q_ord);
}

static gboolean closed(const parley_conn* conn) {
  const parley_direction *const out = &conn->side[PARLEY_INITIATOR], *const back = &conn->side[PARLEY_RESPONDER];
  return out->rst_frame != 0 || back->rst_frame != 0 || (out->fin_frame != 0 && back->fin_frame != 0);
}

typedef enum { ESTABLISHED, REJECTED, FAILED, INCOMPLETE, NOT_CAPTURED } outcome_kind;

/* The same words as in `parley pcap check`. */
static const char* const outcomes[] = {"established", "rejected", "failed", "incomplete", "handshake not captured"};

static outcome_kind outcome(const parley_conn* conn) {
  if (conn->outcome == PARLEY_REJECTED) return REJECTED;
  if (conn->outcome == PARLEY_FAILED) return FAILED;
  if (conn->request.frame == 0 && conn->reply.frame == 0) return NOT_CAPTURED;
  if (conn->outcome == PARLEY_ESTABLISHED) return ESTABLISHED;
  return conn->reply.frame == 0 && closed(conn) ? FAILED : INCOMPLETE;
}

/* Whether the capture lacks octets of a side, or octets wait behind such a hole. */
static gboolean lacks_octets(const parley_direction* side) {
  const parley_half* const half = (const parley_half*)side->stream;
  if (side->missing > 0) return TRUE;
  /* RFC 9293 §3.4: a FIN takes one sequence number. */
  return half != NULL && half->stream.synced &&
         (half->stream.first != NULL || half->stream.acked > half->stream.position + 1);
}

/* failed: an error, a failed set-up, or an end by Terminate. partial: not all octets could be checked. */
static const char* result(const parley_conn* conn) {
  const outcome_kind how = outcome(conn);
  const parley_direction *const out = &conn->side[PARLEY_INITIATOR], *const back = &conn->side[PARLEY_RESPONDER];
  if (conn->errors > 0 || how == FAILED || out->terminate_frame != 0 || back->terminate_frame != 0) return "failed";
  return how == INCOMPLETE || how == NOT_CAPTURED || lacks_octets(out) || lacks_octets(back) ? "partial" : "passed";
}

/* "-": one of the two was not seen, or the capture has them in the wrong order. Padded, because Wireshark's table sorts
 * by text. */
static char* step(gboolean seen, const nstime_t* from, const nstime_t* to) {
  nstime_t delta;
  if (!seen || nstime_cmp(from, to) > 0) return g_strdup_printf("%14s", "-");
  nstime_delta(&delta, to, from);
  return g_strdup_printf("%14.3f", nstime_to_msec(&delta));
}

/* How the connection ended, in the order of frames. */
static char* ended(const parley_conn* conn) {
  struct {
    guint32 frame;
    const char* what;
    int side;
  } ends[6], swap;
  guint count = 0;
  for (int side = 0; side < 2; ++side) {
    const parley_direction* d = &conn->side[side];
    if (d->terminate_frame != 0)
      ends[count].frame = d->terminate_frame, ends[count].what = "Terminate", ends[count++].side = side;
    if (d->fin_frame != 0) ends[count].frame = d->fin_frame, ends[count].what = "FIN", ends[count++].side = side;
    if (d->rst_frame != 0) ends[count].frame = d->rst_frame, ends[count].what = "RST", ends[count++].side = side;
  }
  for (guint i = 1; i < count; ++i)
    for (guint j = i; j > 0 && ends[j - 1].frame > ends[j].frame; --j)
      swap = ends[j], ends[j] = ends[j - 1], ends[j - 1] = swap;
  if (count == 0) return g_strdup("not in the capture");
  GString* text = g_string_new(NULL);
  for (guint i = 0; i < count; ++i)
    g_string_append_printf(text, "%s%s's %s (%u)", i == 0 ? "" : ", ", parley_side_name(ends[i].side), ends[i].what,
                           ends[i].frame);
  return g_string_free(text, FALSE);
}

static void fill_row(const void* connection, stat_tap_table_item_type* row) {
  const parley_conn* const conn = (const parley_conn*)connection;
  const parley_direction *out = &conn->side[PARLEY_INITIATOR], *back = &conn->side[PARLEY_RESPONDER];
  parley_cell_set_number(&row[column_number], conn->number);
  parley_cell_set_text(&row[column_initiator], endpoint(conn, PARLEY_INITIATOR));
  parley_cell_set_text(&row[column_responder], endpoint(conn, PARLEY_RESPONDER));
  parley_cell_set_text(&row[column_revision], revision(conn));
  parley_cell_set_text(&row[column_crc], both(conn, out->crc, back->crc));
  parley_cell_set_text(&row[column_markers], both(conn, out->markers, back->markers));
  parley_cell_set_text(&row[column_rtr], rtr(conn));
  parley_cell_set_text(&row[column_depth], depth(conn));
  parley_cell_set_text(&row[column_result], g_strdup(result(conn)));
  parley_cell_set_text(&row[column_outcome], g_strdup(outcomes[outcome(conn)]));
  for (int side = PARLEY_INITIATOR; side <= PARLEY_RESPONDER; ++side) {
    parley_cell_set_number(&row[column_fpdus_out + side], conn->side[side].fpdus);
    parley_cell_set_number(&row[column_messages_out + side], conn->side[side].messages);
  }
  parley_cell_set_text(&row[column_tcp], step(conn->syns_seen, &conn->syn_at, &conn->syn_ack_at));
  parley_cell_set_text(&row[column_request],
                       step(conn->syns_seen && conn->request.whole, &conn->syn_ack_at, &conn->request.at));
  parley_cell_set_text(&row[column_reply],
                       step(conn->request.whole && conn->reply.whole, &conn->request.at, &conn->reply.at));
  parley_cell_set_text(&row[column_first_fpdu],
                       step(conn->reply.whole && (conn->first_fpdu_frame != 0 || conn->rtr_frame.frame != 0),
                            &conn->reply.at, &conn->first_fpdu_at));
  parley_cell_set_number(&row[column_errors], conn->errors);
  parley_cell_set_number(&row[column_warnings], conn->warnings);
  parley_cell_set_text(&row[column_ended], ended(conn));
}

/* ------------------------------------------------------------------ tshark -z parley,conn */

typedef struct listing {
  GPtrArray* conns; /* in the order in which they were seen */
  GHashTable* known;
} listing;

static void listing_reset(void* data) {
  listing* list = (listing*)data;
  g_ptr_array_set_size(list->conns, 0);
  g_hash_table_remove_all(list->known);
}

static tap_packet_status listing_packet(void* data, packet_info* pinfo _U_, epan_dissect_t* edt _U_, const void* tapped,
                                        tap_flags_t flags _U_) {
  listing* list = (listing*)data;
  if (!g_hash_table_add(list->known, (gpointer)tapped)) return TAP_PACKET_DONT_REDRAW;
  g_ptr_array_add(list->conns, (gpointer)tapped);
  return TAP_PACKET_REDRAW;
}

static gint by_number(gconstpointer a, gconstpointer b) {
  const parley_conn *x = *(const parley_conn*const*)a, *y = *(const parley_conn*const*)b;
  return x->number < y->number ? -1 : x->number > y->number;
}

static const struct {
  const char* title;
  gboolean right;
} columns[] = {
#define PARLEY_X(name, type, align, title) {title, TAP_ALIGN_##align == TAP_ALIGN_RIGHT},
    PARLEY_COLUMNS(PARLEY_X)
#undef PARLEY_X
};

static char* cell_text(const stat_tap_table_item_type* cell) {
  return cell->type == TABLE_ITEM_UINT ? g_strdup_printf("%u", cell->value.uint_value)
                                       : g_strchug(g_strdup(cell->value.string_value));
}

static void print_line(char* const cells[column_count], const gint widths[column_count]) {
  for (int c = 0; c < column_count; ++c)
    if (c == column_count - 1)
      printf("%s\n", cells[c]);
    else
      printf("%*s  ", columns[c].right ? widths[c] : -widths[c], cells[c]);
}

static void listing_draw(void* data) {
  listing* list = (listing*)data;
  const guint count = list->conns->len;
  gint widths[column_count];
  char* titles[column_count];
  char*(*lines)[column_count] = g_malloc0((count + 1) * sizeof *lines);
  g_ptr_array_sort(list->conns, by_number);
  for (int c = 0; c < column_count; ++c) {
    titles[c] = (char*)columns[c].title;
    widths[c] = (gint)strlen(titles[c]);
  }
  for (guint i = 0; i < count; ++i) {
    stat_tap_table_item_type row[column_count];
    memset(row, 0, sizeof row);
    fill_row(g_ptr_array_index(list->conns, i), row);
    for (int c = 0; c < column_count; ++c) {
      lines[i][c] = cell_text(&row[c]);
      widths[c] = MAX(widths[c], (gint)strlen(lines[i][c]));
      parley_cell_free(&row[c]);
    }
  }
  print_line(titles, widths);
  for (guint i = 0; i < count; ++i) {
    print_line(lines[i], widths);
    for (int c = 0; c < column_count; ++c) g_free(lines[i][c]);
  }
  g_free(lines);
}

static void listing_finish(void* data) {
  listing* list = (listing*)data;
  g_ptr_array_free(list->conns, TRUE);
  g_hash_table_destroy(list->known);
  g_free(list);
}

static parley_tap_init listing_init(const char* argument, void* user_data _U_) {
  static const char prefix[] = "parley,conn,";
  const char* filter = strncmp(argument, prefix, sizeof prefix - 1) == 0 ? argument + sizeof prefix - 1 : NULL;
  listing* list = g_new0(listing, 1);
  list->conns = g_ptr_array_new();
  list->known = g_hash_table_new(NULL, NULL);
  GString* error =
      register_tap_listener("parley", list, filter, 0, listing_reset, listing_packet, listing_draw, listing_finish);
  if (error == NULL) PARLEY_TAP_INIT(TRUE);
  report_failure("-z parley,conn: the filter \"%s\" is not one: %s", filter != NULL ? filter : "", error->str);
  g_string_free(error, TRUE);
  listing_finish(list);
  /* Without this, tshark would continue and not print the requested table. */
  if (g_strcmp0(g_get_prgname(), "tshark") == 0) exit(1);
  PARLEY_TAP_INIT(FALSE);
}

/* ------------------------------------------------------------------ Wireshark's Statistics menu */

static parley_rows rows = {"MPA connections", column_count, fill_row, NULL};

static void table_init(stat_tap_table_ui* ui) { parley_rows_init(&rows, ui); }
static void table_reset(stat_tap_table* table) { parley_rows_reset(&rows, table); }

static tap_packet_status table_packet(void* data, packet_info* pinfo, epan_dissect_t* edt _U_, const void* tapped,
                                      tap_flags_t flags _U_) {
  const parley_conn* const conn = (const parley_conn*)tapped;
  return parley_rows_packet(&rows, data, conn, pinfo->num >= conn->last_frame);
}

void parley_stat_register(void) {
  static stat_tap_table_item fields[] = {
#define PARLEY_X(name, type, align, title) {TABLE_ITEM_##type, TAP_ALIGN_##align, title, PARLEY_FORMAT_##type},
#define PARLEY_FORMAT_UINT "%u"
#define PARLEY_FORMAT_STRING "%s"
      PARLEY_COLUMNS(PARLEY_X)
#undef PARLEY_X
  };
  static tap_param parameters[] = {{PARAM_FILTER, "filter", "Filter", NULL, TRUE}};
  static stat_tap_ui listing_ui = {REGISTER_STAT_GROUP_GENERIC, "MPA connections", "parley,conn", listing_init,
                                   array_length(parameters),    parameters};
  static stat_tap_table_ui table_ui = {
      .group = REGISTER_PACKET_STAT_GROUP_UNSORTED,
      .title = "MPA Connections (iWARP)",
      .tap_name = "parley",
      .cli_string = "parley,table",
      .stat_tap_init_cb = table_init,
      .packet_func = table_packet,
      .stat_tap_reset_table_cb = table_reset,
      .stat_tap_free_table_item_cb = parley_rows_free_cell,
      .nfields = array_length(fields),
      .fields = fields,
      .nparams = array_length(parameters),
      .params = parameters,
  };
  register_stat_tap_ui(&listing_ui, NULL);
  register_stat_tap_table_ui(&table_ui);
}
