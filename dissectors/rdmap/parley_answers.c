/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks whether a Terminate answers an earlier fault of the other side. RFC 5040 §5.4, §7.2; RFC 5044 §4.4. */
#include "parley_rdmap.h"

const char* parley_fault_due(const parley_fault* f) {
  if (f->any) return "a Terminate is expected";
  return wmem_strdup_printf(wmem_file_scope(), "%s is expected",
                            parley_terminate_describe(wmem_file_scope(), f->layer, f->etype, f->code));
}

static gboolean answers(const parley_fault* terminate, const parley_fault* fault) {
  if (fault->any) return TRUE;
  /* Hardware of Chelsio and Intel sends MPA's errors with type 3; other code reports that. */
  return terminate->layer == fault->layer && terminate->code == fault->code &&
         (terminate->etype == fault->etype || terminate->layer == PARLEY_RDMAP_LAYER_LLP);
}

/* Errors that the octets of a capture prove or refute. STags, buffers and resources are known only to the peer. */
static gboolean visible(const parley_fault* terminate) {
  static const parley_fault errors[] = {
      {TRUE, FALSE, PARLEY_RDMAP_LAYER_LLP, 0, 2, 0},   {TRUE, FALSE, PARLEY_RDMAP_LAYER_LLP, 0, 3, 0},
      {TRUE, FALSE, PARLEY_RDMAP_LAYER_DDP, 1, 3, 0},   {TRUE, FALSE, PARLEY_RDMAP_LAYER_DDP, 1, 4, 0},
      {TRUE, FALSE, PARLEY_RDMAP_LAYER_DDP, 2, 1, 0},   {TRUE, FALSE, PARLEY_RDMAP_LAYER_DDP, 2, 3, 0},
      {TRUE, FALSE, PARLEY_RDMAP_LAYER_DDP, 2, 4, 0},   {TRUE, FALSE, PARLEY_RDMAP_LAYER_DDP, 2, 6, 0},
      {TRUE, FALSE, PARLEY_RDMAP_LAYER_RDMAP, 2, 5, 0}, {TRUE, FALSE, PARLEY_RDMAP_LAYER_RDMAP, 2, 6, 0}};
  for (guint i = 0; i < G_N_ELEMENTS(errors); i++)
    if (answers(terminate, &errors[i])) return TRUE;
  return FALSE;
}

gboolean parley_blameless(const parley_conn* c, int side, const parley_fault* first) {
  const parley_track* const t = (const parley_track*)c->side[side].track;
  if (c->side[side].missing > 0) return TRUE;
  return t != NULL && (t->lossy || (t->fault_count > 0 && t->faults[0].frame <= first->frame));
}

static void without_cause(parley_pdu* pdu, const parley_track* own, const parley_track* peer) {
  const parley_conn* const c = pdu->conn;
  const parley_fault* const said = &own->terminated;
  if (peer->cause.known && answers(said, &peer->cause)) return;
  if (c->side[1 - pdu->from].missing > 0 || peer->lossy || !visible(said)) return;
  /* RFC 5044 §4.4: without C on either side the field holds anything and is not checked. */
  if (said->layer == PARLEY_RDMAP_LAYER_LLP && said->code == 2 && c->request.frame != 0 && c->reply.frame != 0 &&
      ((c->request.flags | c->reply.flags) & PARLEY_MPA_FLAG_C) == 0) {
    parley_find(pdu, PARLEY_FINDING_groundless, PARLEY_AT_BODY,
                "the %s complains of a CRC although neither side asked for CRCs [RFC 5044 §4.4]",
                parley_side_name(pdu->from));
    return;
  }
  parley_find(pdu, PARLEY_FINDING_reaction, PARLEY_AT_BODY,
              "the %s complains of %s, and nothing that the %s sent gives cause [RFC 5040 §5.4]",
              parley_side_name(pdu->from),
              parley_terminate_describe(wmem_file_scope(), said->layer, said->etype, said->code),
              parley_side_name(1 - pdu->from));
}

void parley_terminate_answers(parley_pdu* pdu) {
  const parley_conn* const c = pdu->conn;
  const parley_track *const own = parley_track_of(pdu->conn, pdu->from), *const peer =
                                                                             parley_track_of(pdu->conn, 1 - pdu->from);
  if (c->outcome == PARLEY_FAILED) return; /* the Terminate is about the set-up */
  if (peer->fault_count == 0) {
    without_cause(pdu, own, peer);
    return;
  }
  for (guint i = 0; i < peer->fault_count; i++)
    if (answers(&own->terminated, &peer->faults[i])) return;
  if (pdu->heard < peer->fault_end || parley_blameless(c, pdu->from, &peer->faults[0])) return;
  parley_find(
      pdu, PARLEY_FINDING_reaction, PARLEY_AT_BODY,
      "the %s answered the fault of frame %u with a Terminate that says %s; %s [RFC 5040 §7.2]",
      parley_side_name(pdu->from), peer->faults[0].frame,
      parley_terminate_describe(wmem_file_scope(), own->terminated.layer, own->terminated.etype, own->terminated.code),
      parley_fault_due(&peer->faults[0]));
}
