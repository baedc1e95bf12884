/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parley_extent.h"

#include <epan/wmem_scopes.h>
#include <string.h>
#include <wsutil/wmem/wmem.h>

void parley_extent_close(parley_extent* extent) {
  wmem_free(wmem_file_scope(), extent->ahead);
  memset(extent, 0, sizeof *extent);
}

void parley_extent_open(parley_extent* extent, guint64 at, gboolean start_unknown) {
  parley_extent_close(extent);
  extent->open = TRUE;
  extent->start_unknown = start_unknown;
  extent->run.begin = extent->run.end = at;
}

guint64 parley_extent_due(const parley_extent* extent) {
  return extent->ahead_count == 0 ? extent->run.end : extent->ahead[extent->ahead_count - 1].end;
}

static gboolean overlap(const parley_range* a, const parley_range* b) { return a->begin < b->end && b->begin < a->end; }

/* Inserts the range into those ahead, and joins adjacent ones. */
static void insert(parley_extent* extent, parley_range range) {
  if (extent->ahead == NULL) extent->ahead = wmem_alloc_array(wmem_file_scope(), parley_range, PARLEY_RANGES_MAX + 1);
  if (extent->start_unknown && range.begin < extent->run.begin) {
    const parley_range before = extent->run;
    extent->run = range;
    range = before;
  }
  guint32 place = extent->ahead_count;
  while (place > 0 && extent->ahead[place - 1].begin > range.begin) place--;
  memmove(extent->ahead + place + 1, extent->ahead + place, (extent->ahead_count - place) * sizeof range);
  extent->ahead[place] = range;
  const guint32 count = extent->ahead_count + 1;
  guint32 kept = 0;
  for (guint32 i = 0; i < count; i++) {
    parley_range* const before = kept == 0 ? &extent->run : &extent->ahead[kept - 1];
    if (extent->ahead[i].begin == before->end)
      before->end = extent->ahead[i].end;
    else
      extent->ahead[kept++] = extent->ahead[i];
  }
  extent->ahead_count = kept;
}

parley_placed parley_extent_place(parley_extent* extent, guint64 at, guint64 length, gboolean last) {
  const parley_range range = {at, at + length};
  const guint64 due = parley_extent_due(extent);
  /* The last segment has the highest offset, and there is only one. */
  if (range.end < at || (extent->last && (last || range.end > due)) || (last && range.end < due))
    return PARLEY_PLACED_WRONG;
  if (extent->ahead_count == 0 && at == extent->run.end) {
    extent->run.end = range.end;
    extent->last = extent->last || last;
    return PARLEY_PLACED_IN_ORDER;
  }
  if ((!extent->start_unknown && at < extent->run.begin) || overlap(&extent->run, &range)) return PARLEY_PLACED_WRONG;
  for (guint32 i = 0; i < extent->ahead_count; i++)
    if (overlap(&extent->ahead[i], &range)) return PARLEY_PLACED_WRONG;
  if (extent->ahead_count >= PARLEY_RANGES_MAX) return PARLEY_PLACED_UNKNOWN;
  extent->last = extent->last || last;
  insert(extent, range);
  return PARLEY_PLACED_AHEAD;
}
