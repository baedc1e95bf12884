/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reorders one direction of a TCP connection (RFC 9293 §3.4, §3.10.7.4), on the first pass only. Each octet is passed
 * on once, in sequence; the first copy of an octet wins; missing octets are passed on as a hole. Wireshark's reordering
 * is a preference that is off by default. Its TCP dissector then passes on no segment that it calls out of order or a
 * retransmission, so that this file must reorder. */
#ifndef PARLEY_STREAM_H
#define PARLEY_STREAM_H

#include "parley_compat.h"

/* Bounds for the segments behind a hole, in each direction. */
#define PARLEY_HELD_OCTETS_MAX (2u << 20)
#define PARLEY_HELD_SEGMENTS_MAX 2048u
/* If the receiver has acknowledged a hole, the capture lacks the octets. The hole is given up after this many further
 * packets, which tolerates captures whose packets are slightly out of order. */
#define PARLEY_HOLE_PATIENCE 16u
/* A sequence number that is further ahead is invalid. */
#define PARLEY_ABSURD_DISTANCE (1 << 28)

typedef struct parley_tcp_segment {
  guint32 frame;
  guint32 seq;      /* raw */
  guint32 length;   /* on the wire */
  guint32 captured; /* of these, in the capture */
  const guint8* data;
  guint32 ack; /* raw; with has_ack */
  gboolean has_ack;
  gboolean start; /* it begins a TCP segment; false for the rest of a trimmed one */
  gboolean again; /* earlier octets of its segment were already known: its acknowledgment may be as old as they are */
  gboolean held;  /* its octets are from an earlier frame than the one that is being dissected */
} parley_tcp_segment;

typedef struct parley_held parley_held;

typedef struct parley_stream {
  gboolean synced;
  guint32 next_seq;
  guint64 position; /* octets passed on so far, holes included */
  guint64 acked;    /* position up to which the other side acknowledged */
  guint32 waited;
  parley_held *first, *last; /* by position */
  guint32 held_segments;
  guint64 held_octets;
} parley_stream;

typedef struct parley_stream_sink {
  void (*octets)(void* context, const parley_tcp_segment* part);
  /* `cut`: by the capture's snap length. */
  void (*hole)(void* context, guint32 octets, gboolean cut, const parley_tcp_segment* shown_by);
  void* context;
} parley_stream_sink;

typedef enum {
  PARLEY_SEGMENT_EMPTY,
  PARLEY_SEGMENT_IN_ORDER,
  PARLEY_SEGMENT_AHEAD,
  PARLEY_SEGMENT_REPEATED,
  PARLEY_SEGMENT_KEEP_ALIVE,
  PARLEY_SEGMENT_ABSURD
} parley_tcp_class;

/* Sets the sequence number of this direction's next octet. */
void parley_stream_sync(parley_stream* stream, guint32 seq);
/* The same, with `before` octets before it that the capture lacks. */
void parley_stream_sync_behind(parley_stream* stream, guint32 seq, guint32 before);
parley_tcp_class parley_stream_add(parley_stream* stream, const parley_tcp_segment* segment,
                                   const parley_stream_sink* sink);
/* The other side has acknowledged octets. Call it for each packet that has an acknowledgment. */
void parley_stream_acked(parley_stream* stream, guint32 ack, const parley_tcp_segment* by,
                         const parley_stream_sink* sink);
/* Moves the next octet back by `back` octets, possibly to before the first known octet. */
void parley_stream_rewind(parley_stream* stream, guint32 back);
/* Skips octets that the other side has acknowledged and the capture lacks. */
void parley_stream_skip_acked(parley_stream* stream);
/* Position of a sequence number; 0 if it is before the first octet. */
guint64 parley_stream_position_of(const parley_stream* stream, guint32 seq);
guint32 parley_stream_seq_of(const parley_stream* stream, guint64 position);

#endif
