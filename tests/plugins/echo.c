/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* A vendor's plug-in, as an example and for tests; and, with one of the macros, one that is not what it should be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PLUGIN_THAT_HANGS
#include <signal.h>
#include <unistd.h>
#endif

#include "parley/plugin.h"

struct session {
  uint8_t message[64];
  size_t length;
};

static int32_t fail(struct parley_plugin_text why, int32_t result, const char* words) {
  snprintf(why.text, why.size, "%s", words);
  return result;
}

static int32_t echo_open(const char* variant, int32_t role, const struct parley_plugin_value* config,
                         size_t config_count, void** session, struct parley_plugin_text why) {
  (void)variant;
  struct session* s = calloc(1, sizeof *s);
  if (s == NULL) return fail(why, PARLEY_PLUGIN_EXHAUSTED, "no memory");
  const char* name = role == PARLEY_PLUGIN_INITIATOR ? "initiator" : "responder";
  for (size_t i = 0; i < config_count; ++i)
    if (strcmp(config[i].name, "name") == 0) name = config[i].value;
  s->length = (size_t)snprintf((char*)s->message, sizeof s->message, "%.40s", name);
  *session = s;
  return PARLEY_PLUGIN_OK;
}

static int32_t echo_exchange(void* session, int32_t stage, const uint8_t* peer, size_t peer_length,
                             struct parley_plugin_turn* turn, struct parley_plugin_text why) {
  struct session* s = session;
  if (stage == PARLEY_PLUGIN_INFO && peer != NULL && peer_length == 5 && memcmp(peer, "wrong", 5) == 0)
    return fail(why, PARLEY_PLUGIN_PEER_DATA, "the peer is called wrong");
#ifdef PLUGIN_THAT_HANGS /* as it is called */
  if (memcmp(s->message, "blocks", 6) == 0)
    for (;;) pause();
  if (memcmp(s->message, "crashes", 7) == 0) abort();
  if (memcmp(s->message, "exits", 5) == 0) exit(7);
  if (memcmp(s->message, "leaves", 6) == 0) exit(0);
  if (memcmp(s->message, "returns", 7) == 0) return -12345;
  if (memcmp(s->message, "stops", 5) == 0) printf("%d\n", (int)getpid()), fflush(stdout), raise(SIGSTOP);
  if (memcmp(s->message, "prints", 6) == 0) printf("printed\n"), fflush(stdout);
  if (memcmp(s->message, "lies", 4) == 0 && write(STDERR_FILENO + 1, "\0\0\0\3\0\0\0\0lie", 11) != 11) abort();
#endif
#if defined(PLUGIN_WITH_A_BAD_MESSAGE)
  turn->length = 10;
  (void)s;
#elif defined(PLUGIN_WITH_A_LONG_MESSAGE)
  turn->message = s->message;
  turn->length = SIZE_MAX;
#elif defined(PLUGIN_WITH_CONTROL_CHARACTERS)
  (void)s, (void)turn;
  memset(why.text, 'x', why.size); /* not even an end */
  memcpy(why.text, "\033[31mred\n", 9);
  return 77;
#else
  turn->message = s->message;
  turn->length = s->length;
  s->length = 0;
  if (peer == NULL && stage != PARLEY_PLUGIN_INFO) turn->length = 0;
#endif
  turn->completed = 1;
  return PARLEY_PLUGIN_OK;
}

static void echo_close(void* session) { free(session); }

#ifdef PLUGIN_THAT_CRASHES_WHEN_LOADED
__attribute__((constructor)) static void crash(void) { abort(); }
#endif

static const struct parley_plugin_parameter parameters[] = {
    {.name = "name", .help = "what it calls itself"},
    {.name = "rate", .help = "in Gb/s", .kind = PARLEY_PLUGIN_NUMBER, .otherwise = "100", .least = 1, .most = 800},
};
#ifdef PLUGIN_WITH_PARAMETERS_AT_NULL
#define PARAMETERS NULL
#else
#define PARAMETERS parameters
#endif
#ifdef PLUGIN_WITH_TOO_MANY_PARAMETERS
#define PARAMETER_COUNT SIZE_MAX
#else
#define PARAMETER_COUNT (sizeof parameters / sizeof *parameters)
#endif
#ifdef PLUGIN_WITH_TOO_MANY_VARIANTS
#define VARIANT_COUNT SIZE_MAX
#else
#define VARIANT_COUNT (sizeof variants / sizeof *variants)
#endif
#ifdef PLUGIN_OF_ANOTHER_VERSION
#define ABI 7
#else
#define ABI PARLEY_PLUGIN_ABI_V1
#endif
#ifdef PLUGIN_TOO_SMALL
#define SIZE 8
#else
#define SIZE sizeof(struct parley_plugin_v1)
#endif
static const struct parley_plugin_variant variants[] = {
#ifdef PLUGIN_WITH_A_SOUND_VARIANT_FIRST
    {.id = "sound", .summary = "has no parameters"},
#endif
    {.id = "hello",
     .summary = "says its name",
     .parameters = PARAMETERS,
     .parameter_count = PARAMETER_COUNT,
     .has_done_stage = 1}};

#if defined(PLUGIN_WITHOUT_SYMBOL) || defined(PLUGIN_WITH_A_POINTER)
#define STRUCTURE not_exported
static
#else
#define STRUCTURE parley_plugin_v1
extern const struct parley_plugin_v1 parley_plugin_v1;
#endif
    const struct parley_plugin_v1 STRUCTURE = {
        .size = SIZE,
        .abi = ABI,
        .id = "echo",
        .version = "1.0",
        .variants = variants,
        .variant_count = VARIANT_COUNT,
        .open = echo_open,
#ifndef PLUGIN_WITHOUT_FUNCTION
        .exchange = echo_exchange,
#endif
        .close = echo_close,
};
#ifdef PLUGIN_WITHOUT_SYMBOL
extern const struct parley_plugin_v1* const parley_plugin_nothing;
const struct parley_plugin_v1* const parley_plugin_nothing = &STRUCTURE;
#endif
#ifdef PLUGIN_WITH_A_POINTER
extern const struct parley_plugin_v1* const parley_plugin_v1;
const struct parley_plugin_v1* const parley_plugin_v1 = &STRUCTURE;
#endif
