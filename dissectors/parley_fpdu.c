/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the FPDUs of one direction: RFC 5044 §4 (format, markers), §6 (finding them again after a loss). FPDUs that lie
 * whole in a segment are walked where they are; only what straddles segments is copied. */
#include <string.h>

#include "parley_crc.h"
#include "parley_mpa.h"

enum { NOT_A_LENGTH = 0, HEAD_MAX = PARLEY_MPA_MARKER_LEN + PARLEY_MPA_LEN_LEN };

static guint32 be32(const guint8* at) { return (guint32)parley_be16(at) << 16 | parley_be16(at + 2); }

/* RFC 5044 §4.1, §4.3: a marker every 512 octets, the markers themselves counted. */
guint32 parley_wire_size(guint64 position, guint32 ulpdu_length, gboolean markers) {
  const guint32 plain = ((PARLEY_MPA_LEN_LEN + ulpdu_length + 3) & ~3u) + PARLEY_MPA_CRC_LEN;
  if (!markers) return plain;
  const guint32 phase = (guint32)(position % PARLEY_MPA_MARKER_INTERVAL);
  const guint32 distance = phase == 0 ? 0 : PARLEY_MPA_MARKER_INTERVAL - phase;
  if (distance >= plain) return plain;
  const guint32 count = 1 + (plain - distance - 1) / (PARLEY_MPA_MARKER_INTERVAL - PARLEY_MPA_MARKER_LEN);
  return plain + PARLEY_MPA_MARKER_LEN * count;
}

/* Octets to the next marker from here. */
static guint32 to_marker(guint64 position) {
  const guint32 phase = (guint32)(position % PARLEY_MPA_MARKER_INTERVAL);
  return phase == 0 ? 0 : PARLEY_MPA_MARKER_INTERVAL - phase;
}

guint32 parley_without_markers(const guint8* wire, guint32 length, guint64 position, guint8* out) {
  guint32 at = 0, made = 0;
  while (at < length) {
    const guint32 run = MIN(to_marker(position + at), length - at);
    memcpy(out + made, wire + at, run);
    made += run;
    at += run + (run < length - at ? PARLEY_MPA_MARKER_LEN : 0);
  }
  return made;
}

/* Whether octets can begin a DDP segment at all; used only to recognise FPDUs, never to accuse.
 * RFC 5041 §4.1, RFC 5040 §4.1 to §4.3, RFC 7306 §4. */
gboolean parley_plausible(const guint8* ulpdu, guint32 octets, guint32 ulpdu_length, guint8 versions) {
#define RULE(name, opcode, tagged, qn, text) [opcode] = {1, tagged, qn},
  static const struct {
    guint8 assigned, tagged, qn;
  } rules[PARLEY_RDMAP_OPCODE_MASK + 1] = {PARLEY_RDMAP_OPCODES(RULE)};
#undef RULE
  /* RFC 5044 §3: an ULPDU has 64768 octets at most. */
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

/* `room`: what will be needed, so that the buffer grows once. The caller keeps the bound. */
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

/* Octets that must be there before the next step: of the head, or of the whole FPDU. NOT_A_LENGTH: its length is none
 * that an FPDU can have. */
static guint32 needed(parley_half* half, const guint8* octets, guint32 length, guint64 at) {
  if (half->markers == PARLEY_UNKNOWN) {
    /* RFC 5044 §7.1.2 rule 7: a stream with markers begins with one, and its first two octets are no length. */
    if (length < PARLEY_MPA_LEN_LEN) return PARLEY_MPA_LEN_LEN;
    half->markers = parley_be16(octets) == 0 ? PARLEY_YES : PARLEY_NO;
  }
  const gboolean markers = half->markers == PARLEY_YES;
  const guint64 position = at - half->zero;
  const guint32 lead = parley_lead_at(markers, position);
  if (length < lead + PARLEY_MPA_LEN_LEN) return lead + PARLEY_MPA_LEN_LEN;
  const guint32 ulpdu_length = parley_be16(octets + lead);
  /* RFC 5044 §3: an ULPDU has 1 to 64768 octets. */
  if (ulpdu_length == 0 || ulpdu_length > PARLEY_MPA_ULPDU_MAX) return NOT_A_LENGTH;
  return parley_wire_size(position, ulpdu_length, markers);
}

static gboolean plausible_at(const parley_half* half, const guint8* octets, guint32 length, guint64 at) {
  const gboolean markers = half->markers == PARLEY_YES;
  const guint64 position = at - half->zero;
  const guint32 lead = parley_lead_at(markers, position);
  if (length < lead + PARLEY_MPA_LEN_LEN + 2) return FALSE;
  const guint32 ulpdu_length = parley_be16(octets + lead);
  guint8 head[PARLEY_DDP_UNTAGGED_LEN + 2 * PARLEY_MPA_MARKER_LEN];
  const guint32 have = MIN(length - lead - PARLEY_MPA_LEN_LEN, PARLEY_DDP_UNTAGGED_LEN + PARLEY_MPA_MARKER_LEN);
  guint32 clean = have;
  if (markers)
    clean =
        parley_without_markers(octets + lead + PARLEY_MPA_LEN_LEN, have, position + lead + PARLEY_MPA_LEN_LEN, head);
  else
    memcpy(head, octets + lead + PARLEY_MPA_LEN_LEN, have);
  return parley_plausible(head, MIN(clean, ulpdu_length), ulpdu_length, half->tcp->versions);
}

static parley_crc_state crc_state(const guint8* wire, guint32 octets) {
  const guint8* const sent = wire + octets - PARLEY_MPA_CRC_LEN;
  /* RFC 5044 §4.4: least significant octet first. */
  const guint32 value = (guint32)sent[0] | (guint32)sent[1] << 8 | (guint32)sent[2] << 16 | (guint32)sent[3] << 24;
  return parley_crc32c(wire, octets - PARLEY_MPA_CRC_LEN) == value ? PARLEY_CRC_GOOD : PARLEY_CRC_BAD;
}

static void lose(parley_half* half) {
  half->lost = half->gap = half->any_gap = TRUE;
  half->trying = FALSE;
  if (half->markers_guessed) half->markers = PARLEY_UNKNOWN;
  if (half->crc_guessed) half->crc = PARLEY_UNKNOWN;
  parley_pending_drop(half);
}

/* An FPDU's octets are all there (or are known to be missing). Returns false when they turn out to be none. */
static gboolean whole(parley_half* half, const guint8* wire, guint32 octets, guint32 known, guint64 at,
                      guint32 first_frame, guint64 peer, gboolean in_payload) {
  parley_crc_state crc = PARLEY_CRC_OFF;
  if (half->crc != PARLEY_NO) {
    crc = known < octets ? PARLEY_CRC_NOT_SEEN : crc_state(wire, octets);
    if (half->trying) {
      /* RFC 5044 §6: only an FPDU whose CRC is good is trusted. If nobody knows whether there are CRCs, being told that
       * this is MPA has to do. */
      if (crc == PARLEY_CRC_BAD && (half->crc == PARLEY_YES || !half->tcp->forced)) return FALSE;
      if (crc == PARLEY_CRC_NOT_SEEN && !plausible_at(half, wire, known, at)) return FALSE;
    }
    if (half->crc == PARLEY_UNKNOWN && crc != PARLEY_CRC_NOT_SEEN) {
      half->crc = crc == PARLEY_CRC_GOOD ? PARLEY_YES : PARLEY_NO;
      half->crc_guessed = half->trying && crc != PARLEY_CRC_GOOD; /* it may have been no FPDU */
    }
    if (half->crc == PARLEY_NO) crc = PARLEY_CRC_OFF;
  }
  if (half->trying) parley_mpa_note(half, PARLEY_NOTE_FOUND, 0, parley_stream_seq_of(&half->stream, at));
  half->trying = FALSE;
  parley_mpa_fpdu(half, wire, octets, known, at, first_frame, peer, in_payload, crc);
  return TRUE;
}

/* No marker was found so far; an FPDU whose CRC is wrong without them may be one with its first. */
static gboolean guessed_wrong(const parley_half* half, const guint8* wire, guint32 octets) {
  return half->markers_guessed && half->crc == PARLEY_YES && crc_state(wire, octets) == PARLEY_CRC_BAD;
}

/* Takes over the buffer: what is shown later keeps it. */
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

enum { NO_PHASE = PARLEY_MPA_MARKER_INTERVAL, LONGEST_HEAD = PARLEY_MPA_LEN_LEN + PARLEY_DDP_UNTAGGED_LEN };

/* Where markers stand is not known. If an FPDU with markers begins here, its first marker tells, for it points back to
 * ULPDU_Length (RFC 5044 §4.3): how far on it is, 0 if it comes first. Fields of the header and payload may look like
 * one, so the CRC has to be right; `sure`: it has to be seen, too. */
static guint32 find_phase(guint8 crc, guint8 versions, const guint8* octets, guint32 length, gboolean sure) {
  for (guint32 q = 0; q < PARLEY_MPA_MARKER_INTERVAL && q + PARLEY_MPA_MARKER_LEN <= length; q += 4) {
    if (be32(octets + q) != q) continue;
    const guint32 lead = q == 0 ? PARLEY_MPA_MARKER_LEN : 0;
    if (length < lead + PARLEY_MPA_LEN_LEN + 2) continue;
    const guint32 ulpdu_length = parley_be16(octets + lead);
    const guint32 before_marker = (q == 0 ? length : q) - lead - PARLEY_MPA_LEN_LEN;
    if (!parley_plausible(octets + lead + PARLEY_MPA_LEN_LEN, MIN(before_marker, 10), ulpdu_length, versions)) continue;
    const guint32 total = parley_wire_size(q == 0 ? 0 : PARLEY_MPA_MARKER_INTERVAL - q, ulpdu_length, TRUE);
    if (total <= q + PARLEY_MPA_MARKER_LEN) continue;
    const gboolean seen = total <= length && crc != PARLEY_NO;
    if (seen ? crc_state(octets, total) == PARLEY_CRC_GOOD : !sure && (q == 0 || q >= LONGEST_HEAD)) return q;
  }
  return NO_PHASE;
}

static gboolean take_phase(parley_half* half, const guint8* octets, guint32 length, guint64 at, gboolean sure) {
  const guint32 q = find_phase(half->crc, half->tcp->versions, octets, length, sure);
  if (q == NO_PHASE) return FALSE;
  half->markers = PARLEY_YES;
  half->markers_guessed = FALSE;
  half->zero = q == 0 ? at : at + q - PARLEY_MPA_MARKER_INTERVAL;
  half->zero_known = TRUE;
  return TRUE;
}

/* Whether the octets, which begin a segment, may begin an FPDU. */
static gboolean may_begin(parley_half* half, const guint8* octets, guint32 length, guint64 at) {
  if (length < PARLEY_MPA_LEN_LEN + 2) return FALSE;
  if (!half->zero_known) {
    const guint8 before = half->markers;
    if (half->markers != PARLEY_NO && take_phase(half, octets, length, at, FALSE)) return TRUE;
    if (half->markers == PARLEY_YES) return FALSE;
    half->zero = at;
    half->markers = PARLEY_NO;
    const gboolean may = plausible_at(half, octets, length, at);
    half->markers_guessed = before == PARLEY_UNKNOWN;
    if (!may) half->markers = before;
    return may;
  }
  return needed(half, octets, length, at) != NOT_A_LENGTH && plausible_at(half, octets, length, at);
}

/* RFC 5044 §6: a marker tells where its FPDU began, or that one begins right after it. Returns how many octets to skip;
 * all of them when there is none here. */
static guint32 by_marker(const parley_half* half, const guint8* octets, guint32 length, guint64 at) {
  if (!half->zero_known || half->markers != PARLEY_YES) return length;
  for (guint32 m = to_marker(at - half->zero); m + PARLEY_MPA_MARKER_LEN <= length; m += PARLEY_MPA_MARKER_INTERVAL) {
    const guint32 pointer = parley_be16(octets + m + 2) & 0xFFFCu;
    if (pointer > m) continue;
    guint32 start = m - pointer;
    if (start >= PARLEY_MPA_MARKER_LEN &&
        (at + start - half->zero) % PARLEY_MPA_MARKER_INTERVAL == PARLEY_MPA_MARKER_LEN)
      start -= PARLEY_MPA_MARKER_LEN; /* the leading marker belongs to it */
    parley_half look = *half;
    if (needed(&look, octets + start, length - start, at + start) != NOT_A_LENGTH &&
        plausible_at(half, octets + start, length - start, at + start))
      return start;
  }
  return length;
}

/* Any place will do where a DDP segment may begin, if a CRC will tell: FPDUs larger than a segment seldom begin one.
 * Rather one that is whole and right than one that is still to come. Octets made to look like FPDUs everywhere do not
 * get a CRC at each place: all of them together read the part no more than CRC_BUDGET times. */
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
      if (crc_state(here, total) != PARLEY_CRC_GOOD) continue;
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

/* Looks for an FPDU in a part of which nothing is known; returns how many octets lie before it. */
static guint32 look_for(parley_half* half, const parley_tcp_segment* part, guint64 at) {
  guint32 skip = 0;
  if (!part->start || !may_begin(half, part->data, part->captured, at)) {
    skip = by_marker(half, part->data, part->captured, at);
    if (skip == part->captured) skip = by_header(half, part->data, part->captured, at);
  }
  if (skip < part->captured) {
    half->lost = FALSE;
    half->trying = TRUE;
  }
  return skip;
}

static void bad_length(parley_half* half, const guint8* octets, guint64 at) {
  const guint32 lead = parley_lead_at(half->markers == PARLEY_YES, at - half->zero);
  if (!half->trying)
    parley_mpa_note(half, PARLEY_NOTE_BAD_LENGTH, parley_be16(octets + lead), parley_stream_seq_of(&half->stream, at));
  lose(half);
}

static void skip_head(parley_tcp_segment* part, guint32 octets) {
  part->data += octets;
  part->seq += octets;
  part->captured -= octets;
  if (octets > 0) part->start = FALSE;
}

/* What was found at the head of the part is no FPDU: found there again, it would be tried for ever. */
static void skip_false_find(parley_tcp_segment* part) { skip_head(part, MIN(part->captured, 4)); }

/* One step with what is pending; `part` gives what it needs. */
static void step_pending(parley_half* half, parley_tcp_segment* part) {
  const guint32 need = needed(half, half->pending, half->pending_length, half->pending_at);
  if (need == NOT_A_LENGTH) {
    bad_length(half, half->pending, half->pending_at);
    return;
  }
  if (half->pending_length < need) {
    parley_tcp_segment head = *part;
    head.captured = MIN(part->captured, need - half->pending_length);
    parley_pending_add(half, &head, need);
    skip_head(part, head.captured);
  }
  if (half->pending_length >= need && need > HEAD_MAX) pending_whole(half, need);
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
    const guint32 need = needed(half, part.data, part.captured, at);
    if (half->markers_guessed && need <= part.captured &&
        (need == NOT_A_LENGTH || guessed_wrong(half, part.data, need)) &&
        take_phase(half, part.data, part.captured, at, need != NOT_A_LENGTH))
      continue;
    if (need == NOT_A_LENGTH) {
      const gboolean found_here = half->trying;
      bad_length(half, part.data, at);
      if (found_here) skip_false_find(&part);
    } else if (need > part.captured) {
      half->pending_at = at;
      parley_pending_add(half, &part, need);
      return;
    } else {
      const guint64 peer =
          part.has_ack ? parley_stream_position_of(&half->tcp->half[1 - half->side].stream, part.ack) : 0;
      if (whole(half, part.data, need, need, at, part.frame, peer, !part.held)) {
        skip_head(&part, need);
        /* A right FPDU of such a length would have had a marker. */
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
    /* Inside an FPDU whose length is known its boundary survives. */
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
  parley_half look = *half; /* what is guessed on the way is not the walk's */
  const guint64 at = parley_stream_position_of(&half->stream, part.seq);
  if (!may_begin(&look, part.data, part.captured, at)) skip_head(&part, by_marker(half, part.data, part.captured, at));
  while (part.captured > 0) {
    const guint64 here = parley_stream_position_of(&half->stream, part.seq);
    const guint32 need = needed(&look, part.data, part.captured, here);
    if (need <= HEAD_MAX || need > part.captured || !plausible_at(&look, part.data, part.captured, here)) return;
    const parley_crc_state crc = half->crc == PARLEY_NO ? PARLEY_CRC_OFF : crc_state(part.data, need);
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
    if (total <= length && crc_state(octets, total) == PARLEY_CRC_GOOD) return TRUE;
  }
  return find_phase(PARLEY_YES, 0, octets, length, TRUE) != NO_PHASE;
}
