/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agreement of the two startup frames, and remarks on each frame: RFC 5044 §7.1, RFC 6581 §6 to §10, OFA 2007-10
 * Rtr §2. Frames are judged once, on the first pass, because a remark must not depend on later frames. */
#include <epan/expert.h>

#include "parley_mpa.h"

static gboolean enhanced(const parley_startup* s) { return s->frame != 0 && s->enhanced; }

/* RFC 6581 §9.1: how many Reads each side may have outstanding. 0x3FFF: not negotiated. */
static void agree_depths(parley_conn* c) {
  c->side[PARLEY_INITIATOR].reads_max = c->side[PARLEY_RESPONDER].reads_max = -1;
  if (!enhanced(&c->request) || !enhanced(&c->reply)) return;
  const guint none = PARLEY_MPA_ENH_NOT_NEGOTIATED;
  const guint q_ird = c->request.ird & PARLEY_MPA_ENH_DEPTH_MASK, q_ord = c->request.ord & PARLEY_MPA_ENH_DEPTH_MASK;
  const guint r_ird = c->reply.ird & PARLEY_MPA_ENH_DEPTH_MASK, r_ord = c->reply.ord & PARLEY_MPA_ENH_DEPTH_MASK;
  if (q_ord != none && r_ird != none) c->side[PARLEY_INITIATOR].reads_max = (gint32)r_ird;
  if (q_ird != none && r_ord != none) c->side[PARLEY_RESPONDER].reads_max = (gint32)r_ord;
}

/* RFC 6581 §9.2, OFA 2007-10 Rtr §2. */
static void agree_rtr(parley_conn* c) {
  const parley_startup *const q = &c->request, *const r = &c->reply;
  c->rtr_agreed = 0;
  c->peer_to_peer = FALSE;
  if (q->frame == 0 || r->frame == 0) return;
  if (q->revision <= 1 && r->revision <= 1 && (q->flags & r->flags & PARLEY_MPA_FLAG_S) != 0)
    c->rtr_agreed |= 1 << PARLEY_RTR_FRAME;
  if (!enhanced(q) || !enhanced(r) || (q->ird & r->ird & PARLEY_MPA_ENH_A) == 0) return;
  c->peer_to_peer = TRUE;
  if ((q->ird & r->ird & PARLEY_MPA_ENH_B) != 0) c->rtr_agreed |= 1 << PARLEY_RTR_SEND;
  if ((q->ord & r->ord & PARLEY_MPA_ENH_C) != 0) c->rtr_agreed |= 1 << PARLEY_RTR_WRITE;
  if ((q->ord & r->ord & PARLEY_MPA_ENH_D) != 0) c->rtr_agreed |= 1 << PARLEY_RTR_READ;
}

static parley_known flag_of(const parley_startup* s, guint8 flag) {
  return s->frame == 0 ? PARLEY_UNKNOWN : (s->flags & flag) != 0 ? PARLEY_YES : PARLEY_NO;
}

/* RFC 5044 §4.4, §7.1.1: CRC if either side requested it; markers to a side that requested them. */
void parley_agree(parley_tcp* tcp) {
  parley_conn* const c = tcp->conn;
  const parley_known q = flag_of(&c->request, PARLEY_MPA_FLAG_C), r = flag_of(&c->reply, PARLEY_MPA_FLAG_C);
  const parley_known crc = q == PARLEY_YES || r == PARLEY_YES    ? PARLEY_YES
                           : q == PARLEY_NO && r == PARLEY_NO    ? PARLEY_NO
                           : parley_prefs.crc == PARLEY_CRC_ON   ? PARLEY_YES
                           : parley_prefs.crc == PARLEY_CRC_NONE ? PARLEY_NO
                                                                 : PARLEY_UNKNOWN;
  const parley_known markers[2] = {[PARLEY_INITIATOR] = flag_of(&c->reply, PARLEY_MPA_FLAG_M),
                                   [PARLEY_RESPONDER] = flag_of(&c->request, PARLEY_MPA_FLAG_M)};
  for (guint i = 0; i < 2; i++) {
    tcp->half[i].crc = (guint8)crc;
    tcp->half[i].markers = (guint8)markers[i];
    c->side[i].crc = crc == PARLEY_YES;
    c->side[i].markers = markers[i] == PARLEY_YES;
  }
  agree_depths(c);
  agree_rtr(c);
}

/* ------------------------------------------------------------------ judgement */

void parley_startup_say(parley_startup_item* item, int severity, const char* format, ...) {
  parley_remark** link = &item->remarks;
  while (*link != NULL) link = &(*link)->next;
  parley_remark* const remark = wmem_new0(wmem_file_scope(), parley_remark);
  va_list arguments;
  va_start(arguments, format);
  remark->text = wmem_strdup_vprintf(wmem_file_scope(), format, arguments);
  va_end(arguments);
  remark->severity = severity;
  *link = remark;
  if (severity == PI_ERROR) ++item->item.conn->errors;
  if (severity == PI_WARN) ++item->item.conn->warnings;
}

typedef struct judge {
  parley_startup_item* item;
  const char* who;
} judge;

#define say(j, severity, ...) parley_startup_say((j)->item, severity, __VA_ARGS__)

static gboolean flag(const parley_startup* s, guint8 mask) { return (s->flags & mask) != 0; }
static guint depth(guint16 word) { return word & PARLEY_MPA_ENH_DEPTH_MASK; }

static void judge_revision(const judge* j, const parley_startup* s) {
  const guint8 erdma = 129;
  if (s->revision == 0)
    say(j, PI_NOTE, "the %s speaks revision 0, that of the RDMA Consortium [RFC 5044 Appendix C]", j->who);
  const gboolean known = s->key == PARLEY_KEY_REQ || s->key == PARLEY_KEY_REP;
  const gboolean m = flag(s, PARLEY_MPA_FLAG_M), c = flag(s, PARLEY_MPA_FLAG_C);
  if (known && s->revision == 0 && !flag(s, PARLEY_MPA_FLAG_R) && (!m || !c))
    /* The appendix is informative, so this is only a warning. */
    say(j, PI_WARN, "the %s speaks revision 0 without %s: there, markers and CRC are always on [RFC 5044 Appendix C]",
        j->who,
        m   ? "C"
        : c ? "M"
            : "M and C");
  if (s->revision > 2)
    say(j, PI_ERROR, "the %s sent revision %u, which no RFC defines%s [RFC 6581 §6]", j->who, s->revision,
        s->revision == erdma ? " (Alibaba's erdma uses it privately)" : "");
}

static void judge_lengths(const judge* j, const parley_startup* s) {
  if (s->pd_length > PARLEY_MPA_PD_MAX)
    say(j, PI_ERROR, "the %s announced %u octets of private data, at most 512 are allowed [RFC 5044 §7.1.1]", j->who,
        s->pd_length);
  if (s->revision >= 2 && flag(s, PARLEY_MPA_FLAG_S) && s->pd_length < PARLEY_MPA_ENH_LEN)
    say(j, PI_ERROR, "the %s set S, but PD_Length %u has no room for the enhanced data [RFC 6581 §6]", j->who,
        s->pd_length);
}

/* B, C or D without A. If C is among them, the sender may have exchanged its two words: then A is in the place of C,
 * and the RTR kinds make sense. */
static void judge_exchanged(const judge* j, const parley_startup* s) {
  const gboolean send = (s->ord & PARLEY_MPA_ENH_D) != 0, read = (s->ird & PARLEY_MPA_ENH_B) != 0;
  if ((s->ord & PARLEY_MPA_ENH_C) != 0 && (send || read))
    say(j, PI_ERROR,
        "the %s set B, C or D although A is 0; with its two words exchanged this is A%s%s, IRD %u, ORD %u "
        "[RFC 6581 §9.2]",
        j->who, send ? "+B" : "", read ? "+D" : "", depth(s->ord), depth(s->ird));
  else
    say(j, PI_ERROR, "the %s set B, C or D although A is 0 [RFC 6581 §9.2]", j->who);
}

static void judge_enhanced(const judge* j, const parley_startup* s) {
  if (!s->enhanced) return;
  const gboolean a = (s->ird & PARLEY_MPA_ENH_A) != 0;
  const gboolean kinds = (s->ird & PARLEY_MPA_ENH_B) != 0 || (s->ord & (PARLEY_MPA_ENH_C | PARLEY_MPA_ENH_D)) != 0;
  if (!a && kinds) judge_exchanged(j, s);
  if (a && !kinds) say(j, PI_ERROR, "the %s set A but none of B, C and D [RFC 6581 §9.2]", j->who);
}

static void judge_request(const judge* j, const parley_startup_item* item) {
  const parley_startup* const q = &item->seen;
  if (item->seen.key == PARLEY_KEY_REP)
    say(j, PI_ERROR, "the initiator began with a Reply key [RFC 5044 §7.1.2]");
  else if (item->seen.key != PARLEY_KEY_REQ)
    say(j, PI_ERROR, "the initiator began with a key that is not that of a Request [RFC 5044 §7.1.1]");
  if (item->again)
    say(j, PI_NOTE,
        "another Request on this TCP connection, after a reject: what was agreed before is void "
        "[RFC 5044 §7.1.2]");
  if (flag(q, PARLEY_MPA_FLAG_R)) say(j, PI_ERROR, "the initiator set R, which is 0 in a Request [RFC 5044 §7.1.1]");
  if ((q->flags & PARLEY_MPA_RES_V2) != 0)
    say(j, PI_ERROR, "the initiator set reserved bits 0x%02x in its Request [RFC 5044 §7.1.1]",
        q->flags & PARLEY_MPA_RES_V2);
  if (q->revision <= 1 && flag(q, PARLEY_MPA_FLAG_S))
    say(j, PI_NOTE,
        "the initiator set S under revision 1: it offers the Rtr frame of 2007; to RFC 5044 the bit is "
        "reserved [OFA 2007-10 Rtr §2]");
  judge_revision(j, q);
  judge_lengths(j, q);
  judge_enhanced(j, q);
  if (!flag(q, PARLEY_MPA_FLAG_C))
    say(j, PI_WARN, "the initiator did not ask for CRC (C=0), which must be the default [RFC 5044 §4.4]");
}

static void judge_reply_bits(const judge* j, const parley_startup* q, const parley_startup* r) {
  const guint8 bits = r->flags & PARLEY_MPA_RES_V2, asked = q->flags & PARLEY_MPA_RES_V2;
  const gboolean known = q->frame != 0, echo = known && bits != 0 && bits == asked;
  if (bits != 0)
    say(j, PI_ERROR, "the responder set reserved bits 0x%02x in its Reply%s [RFC 5044 §7.1.1]", bits,
        echo ? ", echoing those of the Request" : "");
  if (r->revision > 1 || !flag(r, PARLEY_MPA_FLAG_S) || !known) return;
  if (!flag(q, PARLEY_MPA_FLAG_S))
    say(j, PI_ERROR, "the responder set S, reserved under revision 1, in its Reply, unasked [RFC 5044 §7.1.1]");
  else if (echo)
    say(j, PI_ERROR,
        "the responder echoed S with the other reserved bits: it does not mean the Rtr frame "
        "[RFC 5044 §7.1.1]");
}

static void judge_reply_revision(const judge* j, const parley_startup* q, const parley_startup* r) {
  if (q->revision == 0 && r->revision == 1)
    say(j, PI_NOTE,
        "the responder does not speak revision 0 and answered with revision 1; the connection ends here "
        "[RFC 5044 Appendix C]");
  else if (r->revision > q->revision && r->revision <= 2)
    say(j, PI_ERROR, "the responder answered revision %u with revision %u [RFC 6581 §10]", q->revision, r->revision);
  if (r->revision < q->revision && q->revision <= 2)
    say(j, PI_WARN,
        "the responder answered revision %u with revision %u; one that does not know it closes the "
        "connection instead [RFC 6581 §10]",
        q->revision, r->revision);
  if (q->revision < 2 || r->revision < 2) return;
  if (flag(q, PARLEY_MPA_FLAG_S) && !flag(r, PARLEY_MPA_FLAG_S))
    say(j, PI_WARN, "the responder answered an enhanced Request with a Reply without enhanced data [RFC 6581 §10]");
  if (!flag(q, PARLEY_MPA_FLAG_S) && flag(r, PARLEY_MPA_FLAG_S))
    say(j, PI_ERROR, "the responder sent enhanced data to an initiator that sent none [RFC 6581 §10]");
}

static void judge_depths(const judge* j, const parley_startup* q, const parley_startup* r) {
  const guint none = PARLEY_MPA_ENH_NOT_NEGOTIATED;
  if (depth(q->ord) == none && depth(r->ird) != none)
    say(j, PI_ERROR, "the initiator's ORD 0x3fff asks not to negotiate; the responder answered IRD %u [RFC 6581 §9.1]",
        depth(r->ird));
  if (depth(q->ird) == none && depth(r->ord) != none)
    say(j, PI_ERROR, "the initiator's IRD 0x3fff asks not to negotiate; the responder answered ORD %u [RFC 6581 §9.1]",
        depth(r->ord));
  if (depth(q->ird) != none && depth(r->ord) != none && depth(r->ord) > depth(q->ird))
    say(j, PI_WARN,
        "the responder's ORD %u is more than the initiator's IRD %u: the initiator must raise it or "
        "terminate [RFC 6581 §9.1]",
        depth(r->ord), depth(q->ird));
  if (depth(q->ord) != none && depth(r->ird) != none && depth(r->ird) < depth(q->ord))
    say(j, PI_NOTE, "the responder's IRD %u lowers the initiator's ORD from %u [RFC 6581 §9.1]", depth(r->ird),
        depth(q->ord));
}

static void judge_peer_to_peer(const judge* j, const parley_startup* q, const parley_startup* r) {
  const gboolean qa = (q->ird & PARLEY_MPA_ENH_A) != 0, ra = (r->ird & PARLEY_MPA_ENH_A) != 0;
  if (qa != ra) say(j, PI_ERROR, "the responder answered A=%d with A=%d [RFC 6581 §9.2]", qa ? 1 : 0, ra ? 1 : 0);
  if (!qa || !ra) return;
  const gboolean send = (q->ird & r->ird & PARLEY_MPA_ENH_B) != 0;
  const gboolean write = (q->ord & r->ord & PARLEY_MPA_ENH_C) != 0, read = (q->ord & r->ord & PARLEY_MPA_ENH_D) != 0;
  if (!send && !write && !read)
    say(j, PI_WARN,
        "the two sides have no RTR kind in common: the initiator must terminate (layer 2, code 7) "
        "[RFC 6581 §9.2]");
  if (read && !send && !write && depth(r->ird) == 0)
    say(j, PI_WARN, "the responder agreed to a Read as RTR but did not raise its IRD from 0 to 1 [RFC 6581 §9.1]");
}

static void judge_reject(const judge* j, const parley_startup* q) {
  if (flag(q, PARLEY_MPA_FLAG_M))
    say(j, PI_WARN,
        "the responder rejected a Request that requires markers; every sender must be able to insert them "
        "[RFC 5044 §4.3]");
  if (flag(q, PARLEY_MPA_FLAG_R))
    say(j, PI_WARN, "the Reply's R=1 may only be an echo of the Request's [RFC 5044 §7.1.1]");
}

/* Why a Request must not be answered; NULL: it may be. */
static const char* improper(const parley_startup* q, wmem_allocator_t* scope) {
  if (q->key != PARLEY_KEY_REQ) return "has another key";
  if (q->pd_length > PARLEY_MPA_PD_MAX)
    return wmem_strdup_printf(scope, "announces %u octets of private data", q->pd_length);
  if (q->revision == 2 && flag(q, PARLEY_MPA_FLAG_S) && q->pd_length < PARLEY_MPA_ENH_LEN)
    return "has no room for the enhanced data";
  return NULL;
}

/* RFC 5044 §7.1.2 rule 2: an improper Request is not answered, and TCP is closed. */
static void judge_acceptance(const judge* j, const parley_startup* q, const parley_startup* r) {
  const char* const why = improper(q, wmem_file_scope());
  if (why == NULL || r->key != PARLEY_KEY_REP) return;
  if (flag(r, PARLEY_MPA_FLAG_R))
    say(j, PI_WARN,
        "the responder rejected a Request that %s; it must close the connection without a Reply [RFC 5044 §7.1.2]",
        why);
  else
    say(j, PI_ERROR, "the responder accepted a Request that %s; it must close the connection [RFC 5044 §7.1.2]", why);
}

/* Compares the Reply with its Request, when both are known. */
static void judge_both(const judge* j, const parley_startup* q, const parley_startup* r) {
  judge_reply_revision(j, q, r);
  judge_acceptance(j, q, r);
  if (flag(r, PARLEY_MPA_FLAG_R)) {
    judge_reject(j, q);
    return;
  }
  if (!q->enhanced || !r->enhanced) return;
  judge_depths(j, q, r);
  judge_peer_to_peer(j, q, r);
}

static void judge_reply(const judge* j, const parley_startup_item* item) {
  const parley_startup *const q = &item->item.conn->request, *const r = &item->seen;
  if (r->key == PARLEY_KEY_REQ)
    say(j, PI_ERROR, "the responder answered with a Request key: both sides are initiators [RFC 5044 §7.1.2]");
  else if (r->key != PARLEY_KEY_REP)
    say(j, PI_ERROR, "the responder answered with a key that is not that of a Reply [RFC 5044 §7.1.1]");
  judge_reply_bits(j, q, r);
  judge_revision(j, r);
  judge_lengths(j, r);
  if (q->frame == 0) say(j, PI_NOTE, "the Request is not in the capture: what it asked for is not known");
  if (flag(r, PARLEY_MPA_FLAG_R))
    say(j, PI_NOTE, "the responder rejected the connection (R=1)%s [RFC 5044 §7.1.2]",
        q->frame != 0 && flag(q, PARLEY_MPA_FLAG_C) && !flag(r, PARLEY_MPA_FLAG_C)
            ? "; it shows C=0 to an initiator that wants CRC"
            : "");
  else
    judge_enhanced(j, r);
  if (q->frame != 0) judge_both(j, q, r);
}

static void judge_rtr_frame(const judge* j, const parley_startup_item* item) {
  const parley_conn* const c = item->item.conn;
  const gboolean known = c->request.frame != 0 && c->reply.frame != 0;
  /* The offer of a frame that is not in the capture is unknown. */
  if (known && (c->rtr_agreed & (1 << PARLEY_RTR_FRAME)) == 0)
    say(j, PI_ERROR, "the initiator sent an Rtr frame that was not agreed (S on both sides) [OFA 2007-10 Rtr §2]");
  if (item->seen.key == PARLEY_KEY_RTR_HEX)
    say(j, PI_NOTE,
        "the key is spelt as in the proposal's octets (RtR), not as in its text (Rtr) "
        "[OFA 2007-10 Rtr §1]");
}

gboolean parley_reply_invalid(const parley_startup* r) {
  return r->key != PARLEY_KEY_REP || r->pd_length > PARLEY_MPA_PD_MAX || r->revision > 2 ||
         (r->revision == 2 && flag(r, PARLEY_MPA_FLAG_S) && r->pd_length < PARLEY_MPA_ENH_LEN);
}

void parley_startup_judge(parley_startup_item* item) {
  const parley_conn* const c = item->item.conn;
  const judge own = {item, item->item.from == PARLEY_INITIATOR ? "initiator" : "responder"};
  if (item->second) {
    say(&own, PI_ERROR, "the %s sent a second startup frame [RFC 5044 §7.1.2]", own.who);
  } else if (item->is_rtr_frame) {
    judge_rtr_frame(&own, item);
  } else if (item->item.from == PARLEY_RESPONDER) {
    judge_reply(&own, item);
  } else {
    judge_request(&own, item);
    if (c->reply.frame != 0) { /* captured in the wrong order */
      const judge other = {item, "responder"};
      judge_both(&other, &c->request, &c->reply);
    }
  }
}
