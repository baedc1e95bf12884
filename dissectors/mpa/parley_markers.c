/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Markers: their positions, how to find these without the startup frames, and streams with markers that were not agreed
 * or without agreed ones. RFC 5044 §4.3, §6, §7.1.2. */
#include <string.h>

#include "parley_crc.h"
#include "parley_mpa.h"

static guint32 be32(const guint8* at) { return (guint32)parley_be16(at) << 16 | parley_be16(at + 2); }

/* RFC 5044 §4.1, §4.3: a marker every 512 octets, including the markers themselves. */
guint32 parley_wire_size(guint64 position, guint32 ulpdu_length, gboolean markers) {
  const guint32 plain = ((PARLEY_MPA_LEN_LEN + ulpdu_length + 3) & ~3u) + PARLEY_MPA_CRC_LEN;
  if (!markers) return plain;
  const guint32 phase = (guint32)(position % PARLEY_MPA_MARKER_INTERVAL);
  const guint32 distance = phase == 0 ? 0 : PARLEY_MPA_MARKER_INTERVAL - phase;
  if (distance >= plain) return plain;
  const guint32 count = 1 + (plain - distance - 1) / (PARLEY_MPA_MARKER_INTERVAL - PARLEY_MPA_MARKER_LEN);
  return plain + PARLEY_MPA_MARKER_LEN * count;
}

/* Octets from here to the next marker. */
guint32 parley_to_marker(guint64 position) {
  const guint32 phase = (guint32)(position % PARLEY_MPA_MARKER_INTERVAL);
  return phase == 0 ? 0 : PARLEY_MPA_MARKER_INTERVAL - phase;
}

guint32 parley_without_markers(const guint8* wire, guint32 length, guint64 position, guint8* out) {
  guint32 at = 0, made = 0;
  while (at < length) {
    const guint32 run = MIN(parley_to_marker(position + at), length - at);
    memcpy(out + made, wire + at, run);
    made += run;
    at += run + (run < length - at ? PARLEY_MPA_MARKER_LEN : 0);
  }
  return made;
}

parley_crc_state parley_crc_state_of(const guint8* wire, guint32 octets) {
  const guint8* const sent = wire + octets - PARLEY_MPA_CRC_LEN;
  /* RFC 5044 §4.4: least significant octet first. */
  const guint32 value = (guint32)sent[0] | (guint32)sent[1] << 8 | (guint32)sent[2] << 16 | (guint32)sent[3] << 24;
  return parley_crc32c(wire, octets - PARLEY_MPA_CRC_LEN) == value ? PARLEY_CRC_GOOD : PARLEY_CRC_BAD;
}

gboolean parley_plausible_at(const parley_half* half, const guint8* octets, guint32 length, guint64 at) {
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

enum { LONGEST_HEAD = PARLEY_MPA_LEN_LEN + PARLEY_DDP_UNTAGGED_LEN };

/* Finds the position of the markers if it is unknown. If an FPDU with markers begins here, its first marker points back
 * to ULPDU_Length (RFC 5044 §4.3), so its pointer is the distance from here, 0 if the marker comes first. Fields of the
 * header and payload may look like a marker, so the CRC must be right; with `sure`, it must also be in the capture. */
guint32 parley_find_phase(guint8 crc, guint8 versions, const guint8* octets, guint32 length, gboolean sure) {
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
    if (seen ? parley_crc_state_of(octets, total) == PARLEY_CRC_GOOD : !sure && (q == 0 || q >= LONGEST_HEAD)) return q;
  }
  return PARLEY_NO_PHASE;
}

gboolean parley_take_phase(parley_half* half, const guint8* octets, guint32 length, guint64 at, gboolean sure) {
  const guint32 q = parley_find_phase(half->crc, half->tcp->versions, octets, length, sure);
  if (q == PARLEY_NO_PHASE) return FALSE;
  half->markers = PARLEY_YES;
  half->markers_guessed = FALSE;
  half->zero = q == 0 ? at : at + q - PARLEY_MPA_MARKER_INTERVAL;
  half->zero_known = TRUE;
  return TRUE;
}

/* ------------------------------------------------------------------ streams that are not as agreed */

static gboolean pad_is_zero(const guint8* wire, guint32 ulpdu_length, guint32 lead) {
  gboolean zero = TRUE;
  for (guint32 pad = PARLEY_MPA_LEN_LEN + ulpdu_length; (pad & 3) != 0; pad++) zero = zero && wire[lead + pad] == 0;
  return zero;
}

/* Whether `wire` is a correct FPDU of `total` octets if the stream begins contrary to the agreement. */
static gboolean right_otherwise(const parley_half* half, const guint8* wire, guint32 total, guint64 at,
                                gboolean agreed) {
  parley_half look = *half;
  look.markers = agreed ? PARLEY_NO : PARLEY_YES;
  if (!parley_plausible_at(&look, wire, total, at)) return FALSE;
  if (half->crc == PARLEY_YES) return parley_crc_state_of(wire, total) == PARLEY_CRC_GOOD;
  const guint32 lead = agreed ? 0 : PARLEY_MPA_MARKER_LEN;
  return total > PARLEY_MPA_MARKER_INTERVAL || pad_is_zero(wire, parley_be16(wire + lead), lead);
}

/* RFC 5044 §4.3: markers are only in the stream to the side that requested them. Only a good FPDU under the other
 * reading proves that a stream deviates from the agreement. Octets that fit the agreement are never delayed. Returns
 * how many octets the decision needs; 0: it is made. */
guint32 parley_settle_markers(parley_half* half, const guint8* octets, guint32 length, guint64 at) {
  if (half->fpdus_seen > 0 || half->trying || !half->zero_known || at != half->zero ||
      half->markers == PARLEY_UNKNOWN || half->markers_settled)
    return 0;
  const gboolean agreed = half->markers == PARLEY_YES;
  if (length < PARLEY_MPA_LEN_LEN) return PARLEY_MPA_LEN_LEN;
  const guint32 lead = agreed ? 0 : PARLEY_MPA_MARKER_LEN;
  if ((parley_be16(octets) == 0) == agreed) return 0;
  if (length < lead + PARLEY_MPA_LEN_LEN) return lead + PARLEY_MPA_LEN_LEN;
  const guint32 ulpdu_length = parley_be16(octets + lead);
  half->markers_settled = TRUE;
  /* The pointer of a marker between FPDUs is 0. */
  if ((!agreed && (be32(octets) & ~3u) != 0) || ulpdu_length < PARLEY_DDP_TAGGED_LEN ||
      ulpdu_length > PARLEY_MPA_ULPDU_MAX)
    return 0;
  const guint32 total = parley_wire_size(0, ulpdu_length, !agreed);
  parley_half look = *half;
  look.markers = agreed ? PARLEY_NO : PARLEY_YES;
  if (length < total && length >= lead + PARLEY_MPA_LEN_LEN + 2 && !parley_plausible_at(&look, octets, length, at))
    return 0;
  if (length < total) {
    half->markers_settled = FALSE;
    return total;
  }
  if (!right_otherwise(half, octets, total, at, agreed)) return 0;
  half->markers = agreed ? PARLEY_NO : PARLEY_YES;
  parley_mpa_wrong(half, agreed ? PARLEY_NOTE_NO_MARKERS : PARLEY_NOTE_MARKERS, 0, at);
  return 0;
}

/* Size of an FPDU with all its markers except the one at the stream position `omitted`. */
static guint32 size_without(guint64 position, guint32 ulpdu_length, guint64 omitted) {
  const guint32 plain = parley_wire_size(0, ulpdu_length, FALSE);
  guint32 markers = 0;
  for (guint64 m = position + parley_to_marker(position); m < position + plain + markers;
       m += PARLEY_MPA_MARKER_INTERVAL)
    if (m != omitted) markers += PARLEY_MPA_MARKER_LEN;
  return plain + markers;
}

static gboolean proves_markers(const parley_half* half) {
  return half->markers == PARLEY_YES && half->crc == PARLEY_YES && half->zero_known && !half->trying &&
         half->unproven == 0;
}

/* Whether an FPDU lacks one of the markers behind its ULPDU_Length (RFC 5044 §4.3). Its sender then computed the CRC
 * without the marker, so that the FPDU is correct with the shorter size. `need`: its size with all markers. Returns its
 * real size; 0: it lacks none, or it is not complete. */
guint32 parley_lacks_marker(const parley_half* half, const guint8* octets, guint32 length, guint64 at, guint32 need) {
  if (!proves_markers(half)) return 0;
  const guint64 position = at - half->zero;
  const guint32 lead = parley_lead_at(TRUE, position);
  if (need <= lead + PARLEY_MPA_LEN_LEN + PARLEY_MPA_CRC_LEN || length < lead + PARLEY_MPA_LEN_LEN) return 0;
  guint32 m = parley_to_marker(position + lead) + lead;
  while (m + PARLEY_MPA_MARKER_LEN <= MIN(length, need) && (be32(octets + m) & 0xFFFCu) == m - lead)
    m += PARLEY_MPA_MARKER_INTERVAL;
  if (m + PARLEY_MPA_MARKER_LEN > MIN(length, need)) return 0;
  const guint32 total = size_without(position, parley_be16(octets + lead), position + m);
  if (length < total || (length >= need && parley_crc_state_of(octets, need) == PARLEY_CRC_GOOD)) return 0;
  return parley_crc_state_of(octets, total) == PARLEY_CRC_GOOD ? total : 0;
}

/* The same for the marker that is due before the FPDU. Without it, ULPDU_Length is in its place, and it is not 0 as the
 * first half of a marker is. Returns how many octets the decision needs, or with `lacks` the size of the FPDU. 0: the
 * marker is there. */
guint32 parley_lacks_lead(const parley_half* half, const guint8* octets, guint32 length, guint64 at, gboolean* lacks) {
  enum { PROBE = PARLEY_MPA_LEN_LEN + PARLEY_DDP_UNTAGGED_LEN };
  const guint64 position = at - half->zero;
  *lacks = FALSE;
  if (!proves_markers(half) || parley_lead_at(TRUE, position) == 0) return 0;
  if (length < PARLEY_MPA_LEN_LEN) return PARLEY_MPA_LEN_LEN;
  const guint32 ulpdu_length = parley_be16(octets);
  if (ulpdu_length < PARLEY_DDP_TAGGED_LEN || ulpdu_length > PARLEY_MPA_ULPDU_MAX) return 0;
  if (length < PROBE) return PROBE;
  if (!parley_plausible(octets + PARLEY_MPA_LEN_LEN, MIN(ulpdu_length, PARLEY_DDP_UNTAGGED_LEN), ulpdu_length,
                        half->tcp->versions))
    return 0;
  const guint32 total = size_without(position, ulpdu_length, position);
  if (length < total) return total;
  *lacks = parley_crc_state_of(octets, total) == PARLEY_CRC_GOOD;
  return *lacks ? total : 0;
}
