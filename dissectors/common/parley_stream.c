/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parley_stream.h"

struct parley_held {
  parley_held* next;
  guint64 position;
  parley_tcp_segment part;
};

void parley_stream_sync(parley_stream* stream, guint32 seq) {
  stream->synced = TRUE;
  stream->next_seq = seq;
}

void parley_stream_sync_behind(parley_stream* stream, guint32 seq, guint32 before) {
  parley_stream_sync(stream, seq);
  stream->position = before;
}

guint64 parley_stream_position_of(const parley_stream* stream, guint32 seq) {
  const gint64 at = (gint64)stream->position + (gint32)(seq - stream->next_seq);
  return at > 0 ? (guint64)at : 0;
}

guint32 parley_stream_seq_of(const parley_stream* stream, guint64 position) {
  return stream->next_seq - (guint32)(stream->position - position);
}

static void hand_on(parley_stream* stream, const parley_tcp_segment* part, const parley_stream_sink* sink) {
  stream->position += part->length;
  stream->next_seq += part->length;
  stream->waited = 0;
  if (part->captured > 0) sink->octets(sink->context, part);
  if (part->length > part->captured) sink->hole(sink->context, part->length - part->captured, TRUE, part);
}

/* The segment without its first octets, which are already known. */
static parley_tcp_segment without_head(const parley_tcp_segment* s, guint32 octets) {
  parley_tcp_segment rest = *s;
  const guint32 captured = MIN(octets, s->captured);
  rest.seq += octets;
  rest.length -= octets;
  rest.captured -= captured;
  if (captured > 0) rest.data += captured; /* without octets there may be no data */
  rest.start = s->start && octets == 0;
  rest.again = s->again || octets > 0;
  return rest;
}

static void hand_on_held(parley_stream* stream, const parley_stream_sink* sink) {
  while (stream->first != NULL && stream->first->position <= stream->position) {
    parley_held* const held = stream->first;
    stream->first = held->next;
    if (stream->first == NULL) stream->last = NULL;
    stream->held_segments--;
    stream->held_octets -= held->part.length;
    const guint64 back = stream->position - held->position;
    if (back < held->part.length) {
      const parley_tcp_segment part = without_head(&held->part, (guint32)back);
      hand_on(stream, &part, sink);
    }
    wmem_free(wmem_file_scope(), (void*)held->part.data);
    wmem_free(wmem_file_scope(), held);
  }
}

static void give_up_hole(parley_stream* stream, const parley_tcp_segment* shown_by, const parley_stream_sink* sink) {
  if (stream->first == NULL) return;
  const guint64 octets = stream->first->position - stream->position;
  stream->position += octets;
  stream->next_seq += (guint32)octets;
  stream->waited = 0;
  sink->hole(sink->context, (guint32)octets, FALSE, shown_by);
  hand_on_held(stream, sink);
}

static gboolean hold(parley_stream* stream, guint64 position, const parley_tcp_segment* s) {
  parley_held** link = &stream->first;
  /* Segments behind a hole mostly come in order: look at the last one first. */
  if (stream->last != NULL && stream->last->position < position) {
    link = &stream->last->next;
  } else {
    while (*link != NULL && (*link)->position < position) link = &(*link)->next;
    if (*link != NULL && (*link)->position == position && (*link)->part.length >= s->length) return FALSE;
  }
  parley_held* const held = wmem_new0(wmem_file_scope(), parley_held);
  held->position = position;
  held->part = *s;
  held->part.held = TRUE;
  held->part.data = (const guint8*)wmem_memdup(wmem_file_scope(), s->data, s->captured);
  held->next = *link;
  *link = held;
  if (held->next == NULL) stream->last = held;
  stream->held_segments++;
  stream->held_octets += s->length;
  return TRUE;
}

parley_tcp_class parley_stream_add(parley_stream* stream, const parley_tcp_segment* s, const parley_stream_sink* sink) {
  if (!stream->synced) parley_stream_sync(stream, s->seq);
  const gint32 distance = (gint32)(s->seq - stream->next_seq);
  if (s->length == 0) return PARLEY_SEGMENT_EMPTY;
  if (distance == 0) {
    hand_on(stream, s, sink);
    hand_on_held(stream, sink);
    return PARLEY_SEGMENT_IN_ORDER;
  }
  if (distance > 0) {
    if (distance > PARLEY_ABSURD_DISTANCE) return PARLEY_SEGMENT_ABSURD;
    if (!hold(stream, stream->position + (guint32)distance, s)) return PARLEY_SEGMENT_REPEATED;
    if (stream->held_segments > PARLEY_HELD_SEGMENTS_MAX || stream->held_octets > PARLEY_HELD_OCTETS_MAX)
      give_up_hole(stream, s, sink);
    return PARLEY_SEGMENT_AHEAD;
  }
  /* RFC 9293 §3.8.4: a keep-alive repeats the last octet, with any content. */
  if (distance == -1 && s->length == 1) return PARLEY_SEGMENT_KEEP_ALIVE;
  const guint32 back = stream->next_seq - s->seq;
  if (back >= s->length) return PARLEY_SEGMENT_REPEATED;
  const parley_tcp_segment fresh = without_head(s, back);
  hand_on(stream, &fresh, sink);
  hand_on_held(stream, sink);
  return PARLEY_SEGMENT_IN_ORDER;
}

void parley_stream_acked(parley_stream* stream, guint32 ack, const parley_tcp_segment* by,
                         const parley_stream_sink* sink) {
  if (!stream->synced) {
    parley_stream_sync(stream, ack); /* the receiver knows this direction's next octet */
    return;
  }
  const gint32 ahead = (gint32)(ack - stream->next_seq);
  if (ahead > PARLEY_ABSURD_DISTANCE) return;
  const guint64 at = parley_stream_position_of(stream, ack);
  if (at > stream->acked) stream->acked = at;
  if (stream->first != NULL && stream->acked > stream->position && ++stream->waited > PARLEY_HOLE_PATIENCE)
    give_up_hole(stream, by, sink);
}

void parley_stream_rewind(parley_stream* stream, guint32 back) {
  const guint64 more = back > stream->position ? back - stream->position : 0; /* position 0 moves back by this */
  stream->next_seq -= back;
  stream->position = stream->position + more - back;
  stream->acked += more;
  for (parley_held* held = stream->first; held != NULL; held = held->next) held->position += more;
}

void parley_stream_skip_acked(parley_stream* stream) {
  if (stream->acked <= stream->position || (stream->first != NULL && stream->first->position < stream->acked)) return;
  stream->next_seq += (guint32)(stream->acked - stream->position);
  stream->position = stream->acked;
}
