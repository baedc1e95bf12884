/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the FPDUs of one direction: RFC 5044 §4 (format, markers), §6 (finding them again after a loss). FPDUs that are
 * completely in one segment are read in place; only those that straddle segments are copied. */
#include <string.h>

#include "parley_crc.h"
#include "parley_mpa.h"

enum { NOT_A_LENGTH = 0, HEAD_MAX = PARLEY_MPA_MARKER_LEN + PARLEY_MPA_LEN_LEN };

static guint32 be32(const guint8* at) { return (guint32)parley_be16(at) << 16 | parley_be16(at + 2); }

/* Whether octets can begin a DDP segment. Used only to recognise FPDUs, never to report a fault. RFC 5041 §4.1, RFC
 * 5040 §4.1 to §4.3, RFC 7306 §4. */
gboolean parley_plausible(const guint8* ulpdu, guint32 octets, guint32 ulpdu_length, guint8 versions) {
#define RULE(name, opcode, tagged, qn, text) [opcode] = {1, tagged, qn},
  static const struct {
    guint8 assigned, tagged, qn;
  } rules[PARLEY_RDMAP_OPCODE_MASK + 1] = {PARLEY_RDMAP_OPCODES(RULE)};
#undef RULE
  /* RFC 5044 §3: a ULPDU has at most 64768 octets. */
  if (octets < 2 || ulpdu_length < PARLEY_DDP_TAGGED_LEN || ulpdu_length > PARLEY_MPA_ULPDU_MAX) return FALSE;
  const guint8 version = ulpdu[0] & PARLEY_DDP_DV_MASK;
  const guint8 rdmap = (ulpdu[1] & PARLEY_RDMAP_RV_MASK) >> 6;
  if (version > 1 || rdmap != version || (version == 0 && versions != 0)) return FALSE;
  if ((ulpdu[0] & PARLEY_DDP_RSVD) != 0 || (ulpdu[1] & 0x30) != 0) return FALSE;
  const guint8 opcode = ulpdu[1] & PARLEY_RDMAP_OPCODE_MASK;
  const gboolean tagged = (ulpdu[0] & PARLEY_DDP_T) != 0;
  if (!rules[opcode].assigned || rules[opcode].tagged != tagged) return FALSE;
  if (tagged) return TRUE;
  if (ulpdu_length < PARLEY_DDP_UNTAGGED_LEN) return FALSE;
  return octets < 10 || be32(ulpdu + 6) == rules[opcode].qn;
}

void parley_pending_drop(parley_half* half) {
  half->parts = NULL;
  wmem_free(wmem_file_scope(), half->pending);
  half->pending = NULL;
  half->pending_length = half->pending_room = 0;
}

void parley_parts_whole(parley_half* half) {
  for (parley_part* part = half->parts; part != NULL; part = part->next) part->whole_in = half->tcp->pinfo->num;
  half->parts = NULL;
}

/* `room`: the final size, so that the buffer grows only once. The caller enforces the bound. */
void parley_pending_add(parley_half* half, const parley_tcp_segment* part, guint32 room) {
  const guint32 length = half->pending_length + part->captured;
  if (half->pending_length == 0) {
    half->pending_known = G_MAXUINT32;
    half->pending_frame = part->frame;
    half->pending_peer =
        part->has_ack ? parley_stream_position_of(&half->tcp->half[1 - half->side].stream, part->ack) : 0;
  }
  if (length > half->pending_room) {
    half->pending_room = MAX(length, room);
    half->pending = (guint8*)wmem_realloc(wmem_file_scope(), half->pending, half->pending_room);
  }
  if (part->data != NULL)
    memcpy(half->pending + half->pending_length, part->data, part->captured);
  else
    memset(half->pending + half->pending_length, 0, part->captured);
  half->pending_length = length;
}

void parley_fpdus_begin(parley_half* half, parley_known crc, parley_known markers, guint64 zero) {
  half->phase = PARLEY_PHASE_FPDUS;
  half->crc = (guint8)crc;
  half->markers = (guint8)markers;
  half->zero = zero;
  half->zero_known = TRUE;
}

/* Octets that the next step needs: those of the head, or of the whole FPDU. NOT_A_LENGTH: no FPDU can have this
 * length. */
static guint32 needed(parley_half* half, const guint8* octets, guint32 length, guint64 at) {
  if (half->markers == PARLEY_UNKNOWN) {
    /* RFC 5044 §7.1.2 rule 7: a stream with markers begins with one, whose first two octets are 0 and not a length. */
    if (length < PARLEY_MPA_LEN_LEN) return PARLEY_MPA_LEN_LEN;
    half->markers = parley_be16(octets) == 0 ? PARLEY_YES : PARLEY_NO;
  }
  const gboolean markers = half->markers == PARLEY_YES;
  const guint64 position = at - half->zero;
  const guint32 lead = parley_lead_at(markers, position);
  if (length < lead + PARLEY_MPA_LEN_LEN) return lead + PARLEY_MPA_LEN_LEN;
  const guint32 ulpdu_length = parley_be16(octets + lead);
  /* RFC 5044 §3: a ULPDU has 1 to 64768 octets. */
  if (ulpdu_length == 0 || ulpdu_length > PARLEY_MPA_ULPDU_MAX) return NOT_A_LENGTH;
  return parley_wire_size(position, ulpdu_length, markers);
}

static void lose(parley_half* half) {
  half->lost = half->gap = half->any_gap = TRUE;
  half->trying = half->after_bad_crc = FALSE;
  half->unproven = 0;
  if (half->markers_guessed) half->markers = PARLEY_UNKNOWN;
  if (half->crc_guessed) half->crc = PARLEY_UNKNOWN;
  parley_pending_drop(half);
}

/* RFC 5044 §6 trusts an FPDU that is found after a loss if its CRC is right. Without a CRC nothing proves it, and
 * payload may look like one. So this many in a row must fit together before they are judged and faults are reported. */
enum { BELIEVED_AFTER = 3 };

/* Header, pad and markers look like those of an FPDU. */
static gboolean fits(const parley_half* half, const guint8* wire, guint32 octets, guint32 known, guint64 at) {
  if (!parley_plausible_at(half, wire, known, at)) return FALSE;
  const gboolean markers = half->markers == PARLEY_YES;
  const guint64 position = at - half->zero;
  const guint32 lead = parley_lead_at(markers, position), length = parley_be16(wire + lead);
  for (guint32 m = markers ? parley_to_marker(position) : octets; m + PARLEY_MPA_MARKER_LEN <= known;
       m += PARLEY_MPA_MARKER_INTERVAL)
    if ((parley_be16(wire + m + 2) & 0xFFFCu) != (m < lead ? 0 : m - lead)) return FALSE;
  if (known < octets || (markers && octets > PARLEY_MPA_MARKER_INTERVAL)) return TRUE;
  for (guint32 pad = PARLEY_MPA_LEN_LEN + length; (pad & 3) != 0; pad++)
    if (!markers && wire[pad] != 0) return FALSE;
  return TRUE;
}

/* An FPDU is complete (octets may be known to be missing). Returns false if it turns out not to be an FPDU. */
static gboolean whole(parley_half* half, const guint8* wire, guint32 octets, guint32 known, guint64 at,
                      guint32 first_frame, guint64 peer, gboolean in_payload) {
  parley_crc_state crc = PARLEY_CRC_OFF;
  if (half->crc != PARLEY_NO) {
    crc = known < octets ? PARLEY_CRC_NOT_SEEN : parley_crc_state_of(wire, octets);
    /* RFC 5044 §6: only an FPDU with a good CRC is trusted. If it is unknown whether CRCs are used, the user's Decode
     * As is enough. */
    if (half->trying && crc == PARLEY_CRC_BAD && (half->crc == PARLEY_YES || !half->tcp->forced)) return FALSE;
    if (half->crc == PARLEY_UNKNOWN && crc != PARLEY_CRC_NOT_SEEN) {
      half->crc = crc == PARLEY_CRC_GOOD ? PARLEY_YES : PARLEY_NO;
      half->crc_guessed = half->trying && crc != PARLEY_CRC_GOOD; /* it may not have been an FPDU */
    }
    if (half->crc == PARLEY_NO) crc = PARLEY_CRC_OFF;
  }
  /* A payload may contain whole FPDUs with a right CRC. The octets behind such a false find are not a fault of the
   * sender. */
  if (half->unproven > 0 && crc == PARLEY_CRC_BAD) return FALSE;
  if (half->unproven > 0 && crc != PARLEY_CRC_GOOD && !fits(half, wire, octets, known, at)) return FALSE;
  if (half->trying && !half->after_bad_crc)
    parley_mpa_note(half, PARLEY_NOTE_FOUND, 0, parley_stream_seq_of(&half->stream, at));
  half->trying = half->after_bad_crc = FALSE;
  parley_mpa_fpdu(half, wire, octets, known, at, first_frame, peer, in_payload, crc);
  /* After a wrong CRC the length may be wrong, too. So the next FPDU must be right before it is trusted. */
  half->trying = half->after_bad_crc = crc == PARLEY_CRC_BAD;
  if (half->unproven > 0) half->unproven = half->refuted ? BELIEVED_AFTER : half->unproven - 1;
  half->refuted = FALSE;
  return TRUE;
}

/* The stream was assumed to have no markers. An FPDU whose CRC is wrong without them may contain the first marker. */
static gboolean guessed_wrong(const parley_half* half, const guint8* wire, guint32 octets) {
  return half->markers_guessed && half->crc == PARLEY_YES && parley_crc_state_of(wire, octets) == PARLEY_CRC_BAD;
}

/* The pending FPDU is complete. Its item takes over the buffer, to show it later. */
static void pending_whole(parley_half* half, guint32 octets) {
  const guint8* const wire = half->pending;
  const guint32 known = MIN(half->pending_known, octets);
  if ((known == octets && guessed_wrong(half, wire, octets)) ||
      !whole(half, wire, octets, known, half->pending_at, half->pending_frame, half->pending_peer, FALSE)) {
    lose(half);
    return;
  }
  parley_parts_whole(half);
  half->pending = NULL;
  half->pending_length = half->pending_room = 0;
}

/* Whether the octets, which begin a segment, may begin an FPDU. */
static gboolean may_begin(parley_half* half, const guint8* octets, guint32 length, guint64 at) {
  if (length < PARLEY_MPA_LEN_LEN + 2) return FALSE;
  if (!half->zero_known) {
    const guint8 before = half->markers;
    if (half->markers != PARLEY_NO && parley_take_phase(half, octets, length, at, FALSE)) return TRUE;
    if (half->markers == PARLEY_YES) return FALSE;
    half->zero = at;
    half->markers = PARLEY_NO;
    const gboolean may = parley_plausible_at(half, octets, length, at);
    half->markers_guessed = before == PARLEY_UNKNOWN;
    if (!may) half->markers = before;
    return may;
  }
  return needed(half, octets, length, at) != NOT_A_LENGTH && parley_plausible_at(half, octets, length, at);
}

/* RFC 5044 §6: a marker points to the beginning of its FPDU, or shows that one begins right after it. Returns how many
 * octets to skip; all of them if there is no marker here. */
static guint32 by_marker(const parley_half* half, const guint8* octets, guint32 length, guint64 at) {
  if (!half->zero_known || half->markers != PARLEY_YES) return length;
  for (guint32 m = parley_to_marker(at - half->zero); m + PARLEY_MPA_MARKER_LEN <= length;
       m += PARLEY_MPA_MARKER_INTERVAL) {
    const guint32 pointer = parley_be16(octets + m + 2) & 0xFFFCu;
    if (pointer > m) continue;
    guint32 start = m - pointer;
    if (start >= PARLEY_MPA_MARKER_LEN &&
        (at + start - half->zero) % PARLEY_MPA_MARKER_INTERVAL == PARLEY_MPA_MARKER_LEN)
      start -= PARLEY_MPA_MARKER_LEN; /* the leading marker belongs to it */
    parley_half look = *half;
    if (needed(&look, octets + start, length - start, at + start) != NOT_A_LENGTH &&
        parley_plausible_at(half, octets + start, length - start, at + start))
      return start;
  }
  return length;
}

/* With CRCs, this tries each place where a DDP segment may begin, because FPDUs larger than a TCP segment seldom begin
 * at a segment's start. It prefers a complete FPDU with a right CRC to one that is still incomplete. Octets that are
 * made to look like FPDUs everywhere must not cost a CRC at each place: all CRCs together read at most CRC_BUDGET times
 * the part's octets. */
enum { CRC_BUDGET = 4 };

static guint32 by_header(parley_half* half, const guint8* octets, guint32 length, guint64 at) {
  if (half->crc == PARLEY_NO || half->markers == PARLEY_YES) return length;
  guint32 first = length, budget = CRC_BUDGET * length;
  for (guint32 o = 0; o + PARLEY_MPA_LEN_LEN + PARLEY_DDP_TAGGED_LEN <= length; o++) {
    const guint8* const here = octets + o;
    const guint32 ulpdu_length = parley_be16(here);
    if (!parley_plausible(here + PARLEY_MPA_LEN_LEN, PARLEY_DDP_TAGGED_LEN, ulpdu_length, half->tcp->versions))
      continue;
    const guint32 total = parley_wire_size(0, ulpdu_length, FALSE);
    if (total > length - o) {
      if (first == length) first = o;
    } else if (total <= budget) {
      budget -= total;
      if (parley_crc_state_of(here, total) != PARLEY_CRC_GOOD) continue;
      first = o;
      break;
    }
  }
  if (first < length && half->markers == PARLEY_UNKNOWN) {
    half->markers = PARLEY_NO;
    half->markers_guessed = TRUE;
    half->zero = at + first;
  }
  return first;
}

/* Looks for an FPDU in a part with unknown content; returns how many octets precede it. */
static guint32 look_for(parley_half* half, const parley_tcp_segment* part, guint64 at) {
  guint32 skip = 0;
  if (!part->start || !may_begin(half, part->data, part->captured, at)) {
    skip = by_marker(half, part->data, part->captured, at);
    if (skip == part->captured) skip = by_header(half, part->data, part->captured, at);
  }
  if (skip < part->captured) {
    half->lost = FALSE;
    half->trying = TRUE;
    half->unproven = BELIEVED_AFTER;
  }
  return skip;
}

static void bad_length(parley_half* half, const guint8* octets, guint64 at) {
  const guint32 lead = parley_lead_at(half->markers == PARLEY_YES, at - half->zero);
  if (!half->trying && half->unproven == 0)
    parley_mpa_wrong(half, PARLEY_NOTE_BAD_LENGTH, parley_be16(octets + lead), at);
  lose(half);
}

static void skip_head(parley_tcp_segment* part, guint32 octets) {
  part->data += octets;
  part->seq += octets;
  part->captured -= octets;
  if (octets > 0) part->start = FALSE;
}

/* The octets at the head of the part are not an FPDU. Without skipping some, they would be found and tried forever. */
static void skip_false_find(parley_tcp_segment* part) { skip_head(part, MIN(part->captured, 4)); }

/* RFC 5044 §4.3: the sender left out a marker. Now only the sender knows the position of the next marker. */
static void lacks_marker(parley_half* half, guint64 at) {
  parley_mpa_wrong(half, PARLEY_NOTE_MARKER_LEFT_OUT, 0, at);
  half->tcp->conn->side[half->side].fpdus++;
  lose(half);
  half->zero_known = FALSE;
}

static void fill_pending(parley_half* half, parley_tcp_segment* part, guint32 need) {
  if (half->pending_length >= need) return;
  parley_tcp_segment head = *part;
  head.captured = MIN(part->captured, need - half->pending_length);
  parley_pending_add(half, &head, need);
  skip_head(part, head.captured);
}

/* Checks the markers before an FPDU is read as agreed. Returns how many octets the decision needs; 0: it is made. With
 * `lacks`: returns the size of an FPDU without the marker in front of it. */
static guint32 look_at_markers(parley_half* half, const guint8* octets, guint32 length, guint64 at, gboolean* lacks) {
  const guint32 settled = parley_settle_markers(half, octets, length, at);
  *lacks = FALSE;
  return settled > 0 ? settled : parley_lacks_lead(half, octets, length, at, lacks);
}

/* The same for the pending octets. False: they need more octets, or lack a marker. */
static gboolean markers_of_pending(parley_half* half, parley_tcp_segment* part) {
  gboolean lacks = FALSE;
  while (half->pending_known >= half->pending_length) { /* no octet of it is missing */
    const guint32 due = look_at_markers(half, half->pending, half->pending_length, half->pending_at, &lacks);
    if (lacks) {
      lacks_marker(half, half->pending_at);
      return FALSE;
    }
    if (due == 0) break;
    fill_pending(half, part, due);
    if (half->pending_length < due) return FALSE;
  }
  return TRUE;
}

/* One step with the pending octets, which takes more from `part` as needed. */
static void step_pending(parley_half* half, parley_tcp_segment* part) {
  if (!markers_of_pending(half, part)) return;
  const guint32 need = needed(half, half->pending, half->pending_length, half->pending_at);
  if (need == NOT_A_LENGTH) {
    bad_length(half, half->pending, half->pending_at);
    return;
  }
  fill_pending(half, part, need);
  if (need <= HEAD_MAX) return;
  const guint32 known = MIN(half->pending_known, half->pending_length);
  if (known == half->pending_length && parley_lacks_marker(half, half->pending, known, half->pending_at, need) > 0)
    lacks_marker(half, half->pending_at);
  else if (half->pending_length >= need)
    pending_whole(half, need);
}

void parley_fpdus_add(parley_half* half, const parley_tcp_segment* whole_part) {
  parley_tcp_segment part = *whole_part;
  while (part.captured > 0) {
    const guint64 at = parley_stream_position_of(&half->stream, part.seq);
    if (half->lost) {
      skip_head(&part, look_for(half, &part, at));
      continue;
    }
    if (half->pending_length > 0) {
      step_pending(half, &part);
      continue;
    }
    gboolean lacks;
    const guint32 due = look_at_markers(half, part.data, part.captured, at, &lacks);
    if (lacks) {
      lacks_marker(half, at);
      skip_head(&part, due);
      continue;
    }
    if (due > part.captured) {
      half->pending_at = at;
      parley_pending_add(half, &part, due);
      return;
    }
    const guint32 need = needed(half, part.data, part.captured, at);
    guint32 without;
    if (half->markers_guessed && need <= part.captured &&
        (need == NOT_A_LENGTH || guessed_wrong(half, part.data, need)) &&
        parley_take_phase(half, part.data, part.captured, at, need != NOT_A_LENGTH))
      continue;
    if (need == NOT_A_LENGTH) {
      const gboolean found_here = half->trying;
      bad_length(half, part.data, at);
      if (found_here) skip_false_find(&part);
    } else if ((without = parley_lacks_marker(half, part.data, part.captured, at, need)) > 0) {
      lacks_marker(half, at);
      skip_head(&part, without);
    } else if (need > part.captured) {
      half->pending_at = at;
      parley_pending_add(half, &part, need);
      return;
    } else {
      const guint64 peer =
          part.has_ack ? parley_stream_position_of(&half->tcp->half[1 - half->side].stream, part.ack) : 0;
      if (whole(half, part.data, need, need, at, part.frame, peer, !part.held)) {
        skip_head(&part, need);
        /* A correct FPDU of this length would have contained a marker if there were any. */
        if (need > PARLEY_MPA_MARKER_INTERVAL && half->crc == PARLEY_YES && !half->gap) half->markers_guessed = FALSE;
      } else {
        lose(half);
        skip_false_find(&part);
      }
    }
  }
}

void parley_fpdus_hole(parley_half* half, guint32 octets) {
  if (half->lost) return;
  const guint32 need =
      half->pending_length == 0 ? 0 : needed(half, half->pending, half->pending_length, half->pending_at);
  if (need > HEAD_MAX && half->pending_length < need) {
    /* The hole is inside an FPDU of known length, so its end is still known. */
    const guint32 known = MIN(half->pending_known, half->pending_length);
    const guint32 fill = MIN(octets, need - half->pending_length);
    parley_pending_add(half, &(parley_tcp_segment){.captured = fill}, need);
    half->pending_known = known;
    half->any_gap = TRUE;
    octets -= fill;
    if (half->pending_length == need) pending_whole(half, need);
  }
  if (octets == 0 || half->lost) return;
  parley_mpa_note(half, PARLEY_NOTE_LOST, octets, half->stream.next_seq);
  lose(half);
}

void parley_fpdus_peek(parley_half* half, const parley_tcp_segment* segment) {
  if (half->phase != PARLEY_PHASE_FPDUS || half->markers == PARLEY_UNKNOWN) return;
  if (half->markers == PARLEY_YES && !half->zero_known) return;
  parley_tcp_segment part = *segment;
  parley_half look = *half; /* a copy: guesses made here must not affect the walk */
  const guint64 at = parley_stream_position_of(&half->stream, part.seq);
  if (!may_begin(&look, part.data, part.captured, at)) skip_head(&part, by_marker(half, part.data, part.captured, at));
  while (part.captured > 0) {
    const guint64 here = parley_stream_position_of(&half->stream, part.seq);
    const guint32 need = needed(&look, part.data, part.captured, here);
    if (need <= HEAD_MAX || need > part.captured || !parley_plausible_at(&look, part.data, part.captured, here)) return;
    const parley_crc_state crc = half->crc == PARLEY_NO ? PARLEY_CRC_OFF : parley_crc_state_of(part.data, need);
    if (crc == PARLEY_CRC_BAD) return;
    parley_mpa_show_ahead(half, part.data, need, here, crc);
    skip_head(&part, need);
  }
}

gboolean parley_looks_like_fpdu(const guint8* octets, guint32 length) {
  if (length < PARLEY_MPA_LEN_LEN + PARLEY_DDP_TAGGED_LEN + PARLEY_MPA_CRC_LEN) return FALSE;
  const guint32 ulpdu_length = parley_be16(octets);
  if (parley_plausible(octets + PARLEY_MPA_LEN_LEN, PARLEY_DDP_TAGGED_LEN, ulpdu_length, 0)) {
    const guint32 total = parley_wire_size(0, ulpdu_length, FALSE);
    if (total <= length && parley_crc_state_of(octets, total) == PARLEY_CRC_GOOD) return TRUE;
  }
  return parley_find_phase(PARLEY_YES, 0, octets, length, TRUE) != PARLEY_NO_PHASE;
}
