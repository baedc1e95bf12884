/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The form of startup frames: parses them, computes their length, and recognises them. RFC 5044 §7.1.1, RFC 6581 §6. */
#include <string.h>

#include "parley_mpa.h"

guint parley_key_of(const guint8* key) {
  static const char* const keys[] = {PARLEY_MPA_KEY_REQ, PARLEY_MPA_KEY_REP, PARLEY_MPA_KEY_RTR,
                                     PARLEY_MPA_KEY_RTR_HEX};
  for (guint i = 0; i < G_N_ELEMENTS(keys); i++)
    if (memcmp(key, keys[i], PARLEY_MPA_KEY_LEN) == 0) return i;
  return PARLEY_KEY_OTHER;
}

gboolean parley_begins_like_key(const guint8* octets, guint32 length) {
  static const char head[] = "MPA ID ";
  return memcmp(octets, head, MIN(length, sizeof head - 1)) == 0;
}

/* Alibaba's erdma puts 8 octets before the private data and does not count them. Others use its revision without
 * them. */
enum { ERDMA_REVISION = 129, ERDMA_OCTETS = 8 };

guint32 parley_promised_size(const guint8* octets) {
  return PARLEY_MPA_HEADER_LEN + (guint32)parley_be16(octets + PARLEY_MPA_PD_LENGTH_OFF);
}

/* Octets to wait for. RFC 5044 §7.1.1: a frame that announces more than 512 octets of private data is wrong in any
 * case, so that its header is enough. */
guint32 parley_startup_size(const guint8* octets, guint32 length) {
  if (length < PARLEY_MPA_HEADER_LEN) return PARLEY_MPA_HEADER_LEN;
  const guint32 size = parley_promised_size(octets);
  if (size > PARLEY_MPA_STARTUP_MAX) return MIN(length, size);
  return octets[PARLEY_MPA_REV_OFF] == ERDMA_REVISION && length >= size + ERDMA_OCTETS ? size + ERDMA_OCTETS : size;
}

void parley_startup_read(parley_half* half, const guint8* octets, guint32 known, parley_startup* seen) {
  packet_info* const pinfo = half->tcp->pinfo;
  memset(seen, 0, sizeof *seen);
  seen->frame = pinfo->num;
  seen->at = pinfo->abs_ts;
  seen->key = (guint8)parley_key_of(octets);
  seen->flags = octets[PARLEY_MPA_FLAGS_OFF];
  seen->revision = octets[PARLEY_MPA_REV_OFF];
  seen->pd_length = parley_be16(octets + PARLEY_MPA_PD_LENGTH_OFF);
  seen->cut = known < parley_promised_size(octets) && seen->pd_length <= PARLEY_MPA_PD_MAX;
  seen->whole = seen->pd_length <= PARLEY_MPA_PD_MAX;
  /* RFC 6581 §6: enhanced data needs S and revision 2. */
  seen->enhanced = seen->revision >= 2 && (seen->flags & PARLEY_MPA_FLAG_S) != 0 &&
                   seen->pd_length >= PARLEY_MPA_ENH_LEN && known >= PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN;
  if (!seen->enhanced) return;
  seen->ird = parley_be16(octets + PARLEY_MPA_HEADER_LEN);
  seen->ord = parley_be16(octets + PARLEY_MPA_HEADER_LEN + 2);
}

/* If the capture lacks earlier octets, payload may be in the place of a startup frame and look like one. */
gboolean parley_may_be_startup(const parley_half* half, const guint8* octets, guint32 length) {
  if (!parley_begins_like_key(octets, length)) return FALSE;
  if (length < PARLEY_MPA_HEADER_LEN || half->phase != PARLEY_PHASE_STARTUP || (half->from_syn && !half->any_gap))
    return TRUE;
  const guint8 revision = octets[PARLEY_MPA_REV_OFF];
  return parley_key_of(octets) != PARLEY_KEY_OTHER && (revision <= 2 || revision == ERDMA_REVISION) &&
         parley_be16(octets + PARLEY_MPA_PD_LENGTH_OFF) <= PARLEY_MPA_PD_MAX;
}

/* For the place of an FPDU. An FPDU with these octets would have RDMAP version 0 (RFC 5040 §4.1). */
gboolean parley_begins_like_startup(const guint8* octets, guint32 length) {
  static const char head[] = "MPA ID R";
  return length > 0 && memcmp(octets, head, MIN(length, sizeof head - 1)) == 0;
}

gboolean parley_whole_startup(const guint8* octets, guint32 length) {
  return length >= PARLEY_MPA_HEADER_LEN && parley_startup_size(octets, length) <= length;
}
