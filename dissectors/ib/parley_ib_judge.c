/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connects the plugin to the engine of `parley pcap check`: passes it each packet in the first pass, and shows its
 * findings. */
#include <epan/expert.h>
#include <epan/prefs.h>
#include <epan/proto_data.h>
#include <string.h>

#include "parley/wire/rules_ib.h"
#include "parley_ib.h"

static const struct {
  const char* id;
} rules[] = {
#define PARLEY_X(name, id, clause, severity, needs, sentence) {id},
    PARLEY_IB_RULES(PARLEY_X)
#undef PARLEY_X
};
static const char* const quirks[] = {
#define PARLEY_X(name) name,
    PARLEY_IB_QUIRKS(PARLEY_X)
#undef PARLEY_X
};
static expert_field rule_items[G_N_ELEMENTS(rules)], quirk_items[G_N_ELEMENTS(quirks)], no_memory = EI_INIT;

static int hf_rule = -1, hf_severity = -1;
static gint ett_rule = -1;

static parley_engine* engine;
static parley_bool check_icrc = TRUE;
static gboolean has_findings, gave_up;
static guint32 gave_up_in; /* the frame that reports it */

/* The first pass stores one pointer with a packet: to a connection, or for a CM message to its place. The pointer's
 * lowest bits are free for these flags. */
enum { KEPT_FROM = 1, KEPT_NAMED = 2, KEPT_MESSAGE = 4, KEPT_BITS = 7 };

/* ------------------------------------------------------------------ one file */

static void open_engine(void) {
  const parley_engine_options options = {.no_icrc = !check_icrc};
  engine = parley_engine_open(&options);
  has_findings = FALSE;
  gave_up = engine == NULL;
  gave_up_in = 0;
}

static void close_engine(void) {
  parley_engine_close(engine);
  engine = NULL;
}

static void finish(void) {
  if (engine == NULL || parley_engine_finish(engine) != PARLEY_ENGINE_OK) return;
  has_findings = TRUE;
}

/* ------------------------------------------------------------------ one packet */

/* In nanoseconds. A capture may have any time: one that does not fit is the first or last that does. */
static gint64 time_of(const nstime_t* at) {
  const gint64 most = G_MAXINT64 / 1000000000 - 1;
  const gint64 secs = (gint64)at->secs;
  return (secs > most ? most : secs < -most ? -most : secs) * 1000000000 + at->nsecs;
}

static parley_engine_packet packet_of(const packet_info* pinfo, const parley_ib_packet* p) {
  const guint captured = tvb_captured_length(p->tvb);
  parley_engine_packet out = {.frame = pinfo->num,
                              .at = time_of(&pinfo->abs_ts),
                              .octets = tvb_get_ptr(p->tvb, 0, (gint)captured),
                              .captured = captured,
                              .below = (size_t)(p->carriage == PARLEY_ENGINE_LINK && p->grh >= 0 ? p->grh : p->below),
                              .bth = (size_t)p->bth,
                              .end = (size_t)p->end,
                              .plain = p->plain != FALSE,
                              .carriage = p->carriage};
  memcpy(out.source, p->source.octets, sizeof out.source);
  memcpy(out.destination, p->destination.octets, sizeof out.destination);
  out.source_port = p->source_port;
  return out;
}

/* The lowest bit of the pointer is the sender's side. The next bit records whether the service name was known, because
 * a name that becomes known later is not shown in earlier frames. */
static guintptr keep_place(packet_info* pinfo, const parley_engine_place* place) {
  guintptr kept;
  if (place->connection == NULL) return 0;
  if (place->message) {
    parley_engine_place* const message = (parley_engine_place*)wmem_memdup(wmem_file_scope(), place, sizeof *place);
    message->late = NULL;
    message->late_count = 0;
    kept = (guintptr)message | KEPT_MESSAGE;
  } else {
    kept = (guintptr)place->connection | (place->named ? KEPT_NAMED : 0U) | place->from;
  }
  p_add_proto_data(wmem_file_scope(), pinfo, proto_parley_ib, 0, (void*)kept);
  return kept;
}

static void show_place(guintptr kept, parley_ib_view* out) {
  const void* const address = (const void*)(kept & ~(guintptr)KEPT_BITS);
  if ((kept & KEPT_MESSAGE) != 0) {
    out->message = (const parley_engine_place*)address;
    out->connection = out->flow = out->message->connection;
    out->from = out->message->from;
    out->named = out->message->named;
    return;
  }
  out->flow = (const parley_engine_connection*)address;
  if (out->flow != NULL && out->flow->number != 0) out->connection = out->flow;
  out->named = (kept & KEPT_NAMED) != 0;
  out->from = (guint8)(kept & KEPT_FROM);
}

void parley_ib_place_of(packet_info* pinfo, const parley_ib_packet* p, parley_ib_view* out) {
  const parley_engine_packet packet = packet_of(pinfo, p);
  memset(out, 0, sizeof *out);
  if (!pinfo->fd->visited && engine != NULL) {
    parley_engine_place place;
    if (parley_engine_roce(engine, &packet, &place) != PARLEY_ENGINE_OK && !gave_up) {
      gave_up = TRUE;
      gave_up_in = pinfo->num;
    }
    out->late = place.late;
    out->late_count = place.late_count;
    out->icrc_known = check_icrc && place.icrc_known;
    out->icrc = place.icrc;
    has_findings = has_findings || place.late_count > 0 || parley_engine_findings(engine, pinfo->num) != NULL;
    if (!out->icrc_known || parley_ib_icrc_is(p, out->icrc)) show_place(keep_place(pinfo, &place), out);
    return;
  }
  if (check_icrc) {
    if (gave_up && gave_up_in == 0) gave_up_in = pinfo->num;
    out->icrc_known = parley_engine_icrc(&packet, &out->icrc);
  }
  show_place((guintptr)p_get_proto_data(wmem_file_scope(), pinfo, proto_parley_ib, 0), out);
}

/* ------------------------------------------------------------------ findings */

static expert_field* item_of(const parley_engine_finding* f) {
  for (guint i = 0; f->quirk != NULL && i < G_N_ELEMENTS(quirks); i++)
    if (strcmp(quirks[i], f->quirk) == 0) return &quirk_items[i];
  for (guint i = 0; f->rule != NULL && i < G_N_ELEMENTS(rules); i++)
    if (strcmp(rules[i].id, f->rule) == 0) return &rule_items[i];
  return NULL;
}

/* The ICRC is reported at its checksum item instead. */
static gboolean is_shown(const parley_engine_finding* f) {
  return f->text != NULL && (f->rule == NULL || strcmp(f->rule, "ib.icrc") != 0);
}

/* Adds the fields with which a filter finds any finding. */
static void show_rule(tvbuff_t* tvb, proto_tree* tree, const parley_engine_finding* f) {
  if (f->rule == NULL) return;
  proto_item* const item = proto_tree_add_string(tree, hf_rule, tvb, 0, 0, f->rule);
  proto_item_set_generated(item);
  proto_item_set_generated(
      proto_tree_add_uint(proto_item_add_subtree(item, ett_rule), hf_severity, tvb, 0, 0, (guint32)f->severity));
}

static void show(packet_info* pinfo, tvbuff_t* tvb, proto_tree* tree, const parley_engine_finding* f) {
  proto_item* const item = proto_tree_get_parent(tree);
  expert_field* const as = item_of(f);
  if (!is_shown(f) || as == NULL) return;
  /* Wireshark cuts long labels. Shorten the text first, so that the clause remains. */
  const char* const where =
      f->frame == pinfo->num ? "" : wmem_strdup_printf(pinfo->pool, "frame %" G_GUINT64_FORMAT ": ", f->frame);
  const gsize room = ITEM_LABEL_LENGTH - 1 - strlen(where) - strlen(" [...]") - strlen(f->clause);
  show_rule(tvb, tree, f);
  const gboolean whole = strlen(f->text) <= room + strlen("...");
  const char* const text = whole ? f->text : wmem_strndup(pinfo->pool, f->text, room);
  expert_add_info_format(pinfo, item, as, "%s%s%s [%s]", where, text, whole ? "" : "...", f->clause);
}

gboolean parley_ib_show_findings(packet_info* pinfo, tvbuff_t* tvb, proto_tree* tree, const parley_ib_view* view) {
  gboolean departs = FALSE;
  if (gave_up_in == pinfo->num)
    expert_add_info_format(pinfo, proto_tree_get_parent(tree), &no_memory,
                           "There is no memory left to judge packets: from here on only headers are shown");
  if (!has_findings || engine == NULL) return FALSE;
  for (const parley_engine_finding* f = parley_engine_findings(engine, pinfo->num); f != NULL; f = f->next) {
    departs = departs || f->quirk != NULL;
    show(pinfo, tvb, tree, f);
  }
  for (size_t i = 0; i < view->late_count; i++) show(pinfo, tvb, tree, view->late[i]);
  return departs;
}

/* ------------------------------------------------------------------ registration */

static const char* filter_of(const char* group, const char* id) {
  char* const name = g_strconcat("parley.", group, ".", id, NULL);
  return g_strdelimit(name, "-", '_');
}

void parley_ib_judge_register(expert_module_t* module) {
  enum { SEVERITY_error = PI_ERROR, SEVERITY_warning = PI_WARN, SEVERITY_note = PI_NOTE };
  static const int severities[] = {
#define PARLEY_X(name, id, clause, severity, needs, sentence) SEVERITY_##severity,
      PARLEY_IB_RULES(PARLEY_X)
#undef PARLEY_X
  };
  static ei_register_info infos[G_N_ELEMENTS(rules) + G_N_ELEMENTS(quirks) + 1];
  static const expert_field none = EI_INIT;
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS(rules); i++, n++) {
    rule_items[i] = none;
    const ei_register_info info = {
        &rule_items[i],
        {filter_of("rule", rules[i].id), PI_PROTOCOL, severities[i], g_strconcat("IBA: ", rules[i].id, NULL), EXPFILL}};
    infos[n] = info;
  }
  for (guint i = 0; i < G_N_ELEMENTS(quirks); i++, n++) {
    quirk_items[i] = none;
    const ei_register_info info = {
        &quirk_items[i],
        {filter_of("quirk", quirks[i]), PI_PROTOCOL, PI_NOTE, g_strconcat("Quirk: ", quirks[i], NULL), EXPFILL}};
    infos[n] = info;
  }
  const ei_register_info last = {
      &no_memory, {"parley.engine.no_memory", PI_UNDECODED, PI_WARN, "No memory left to judge packets", EXPFILL}};
  infos[n++] = last;
  expert_register_field_array(module, infos, (int)n);
  prefs_register_bool_preference(
      parley_module(), "ib.icrc", "Check the ICRC of RoCE and InfiniBand packets",
      "A packet whose invariant CRC is wrong is marked and not followed. Off: for captures of "
      "adapters that leave the field empty",
      &check_icrc);
  static const value_string severity_texts[] = {
      {PARLEY_ENGINE_NOTE, "Note"}, {PARLEY_ENGINE_WARNING, "Warning"}, {PARLEY_ENGINE_ERROR, "Error"}, {0, NULL}};
  static hf_register_info hf[] = {
      {&hf_rule, {"Rule", "parley.rule", FT_STRING, BASE_NONE, NULL, 0, "As parley pcap rules has it", HFILL}},
      {&hf_severity, {"Severity", "parley.rule.severity", FT_UINT8, BASE_DEC, VALS(severity_texts), 0, NULL, HFILL}},
  };
  static gint* ett[] = {&ett_rule};
  proto_register_field_array(proto_parley_ib, hf, array_length(hf));
  proto_register_subtree_array(ett, array_length(ett));
  register_init_routine(open_engine);
  register_cleanup_routine(close_engine);
  register_postseq_cleanup_routine(finish);
}
