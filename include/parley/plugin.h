/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* A plug-in of staged QP negotiation as a shared object: what it exports (docs/negotiation.md).
 *
 * It exports one constant, `parley_plugin_v1`. A later version of the interface will be another structure under another
 * symbol; this one remains supported. All texts are UTF-8, end with a NUL, and stay valid while the plug-in is loaded. A call
 * must not keep its arguments after it returns, and must not throw. Calls for one session are sequential, and all sessions
 * run on one thread. */
#ifndef PARLEY_PLUGIN_H
#define PARLEY_PLUGIN_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define PARLEY_PLUGIN_ABI_V1 1
#define PARLEY_PLUGIN_SYMBOL_V1 "parley_plugin_v1"

enum parley_plugin_role { PARLEY_PLUGIN_INITIATOR = 0, PARLEY_PLUGIN_RESPONDER = 1 };
enum parley_plugin_stage { PARLEY_PLUGIN_INFO = 1, PARLEY_PLUGIN_READY = 2, PARLEY_PLUGIN_DONE = 3 };

/* Results of calls. Any other value counts as PARLEY_PLUGIN_LIBRARY, and is shown as "error N" after the call's text. */
enum parley_plugin_result {
  PARLEY_PLUGIN_OK = 0,
  PARLEY_PLUGIN_SERIALIZATION = 1, /* the local data cannot be written */
  PARLEY_PLUGIN_PEER_DATA = 2,     /* the peer's data cannot be used */
  PARLEY_PLUGIN_EXHAUSTED = 3,     /* a resource is exhausted */
  PARLEY_PLUGIN_LIBRARY = 4,       /* the vendor's library failed */
  PARLEY_PLUGIN_CONFIGURATION = 5  /* the configuration is wrong */
};

enum parley_plugin_kind { PARLEY_PLUGIN_TEXT = 0, PARLEY_PLUGIN_NUMBER = 1, PARLEY_PLUGIN_FLAG = 2 };
struct parley_plugin_parameter {
  const char *name, *help;
  int32_t kind;
  int32_t required;
  const char* otherwise; /* the default; NULL: none */
  uint64_t least, most;  /* range of a number; both 0: any */
};
struct parley_plugin_variant {
  const char *id, *summary;
  const struct parley_plugin_parameter* parameters;
  size_t parameter_count;
  int32_t has_done_stage;
};
struct parley_plugin_value {
  const char *name, *value;
};
/* Where a call that fails writes the cause: at most `size` bytes including the NUL. */
struct parley_plugin_text {
  char* text;
  size_t size;
};
/* The message belongs to the plug-in, and stays valid until its next call for the session. */
struct parley_plugin_turn {
  const uint8_t* message;
  size_t length;
  int32_t completed; /* not 0: this side's last message of the stage */
};

struct parley_plugin_v1 {
  uint32_t size; /* sizeof(struct parley_plugin_v1) when the plug-in was compiled */
  uint32_t abi;  /* PARLEY_PLUGIN_ABI_V1 */
  const char *id, *version;
  const struct parley_plugin_variant* variants;
  size_t variant_count;
  /* May be NULL. Called once, before any other call. */
  int32_t (*initialize)(struct parley_plugin_text why);
  int32_t (*open)(const char* variant, int32_t role, const struct parley_plugin_value* config, size_t config_count,
                  void** session, struct parley_plugin_text why);
  /* `peer` is NULL in the initiator's first turn of a stage. After `completed` the plug-in still receives the peer's
   * messages, and answers each with an empty message. */
  int32_t (*exchange)(void* session, int32_t stage, const uint8_t* peer, size_t peer_length,
                      struct parley_plugin_turn* turn, struct parley_plugin_text why);
  /* May be NULL. The stage has ended on both sides. */
  int32_t (*finished)(void* session, int32_t stage, struct parley_plugin_text why);
  void (*close)(void* session);
};

#ifdef __cplusplus
}
#endif
#endif
