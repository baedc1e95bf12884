// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Preloaded into tshark, whose start takes many times longer than to read a small capture. When tshark has opened the capture
// and is ready to dissect, this waits at standard input, which is a socket, and says so with an int of 0. For each octet that
// arrives a child opens what now stands at the capture's path, dissects it and ends as tshark does. Its wait status is the answer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  CANNOT = 97,  // exit status of a child that cannot open the capture; tshark has none so large
  WHOLE = 'w',  // asks for all of tshark's end as well
};

// Wireshark's capture file, and what gives epan its packets, of which only the first member is known here: the file.
typedef struct wtap wtap;
struct provider {
  wtap* file;
};

typedef wtap* open_function(const char*, unsigned, int*, char**, int, void*);
typedef void* new_function(struct provider*, void*);
typedef void cleanup_function(void);

wtap* wtap_open_offline(const char*, unsigned, int*, char**, int, void*);
void* epan_new(struct provider*, void*);
void epan_cleanup(void);

static struct {  // how the capture was opened
  const char* path;
  unsigned type;
  int random;
  void* more;  // of later versions
  wtap* file;
} opened;
static char asked;

static void answer(int status) {
  if (write(STDIN_FILENO, &status, sizeof status) != (ssize_t)sizeof status) _exit(3);
}

// Returns in each child; ends when the socket is closed.
static void serve(void) {
  fflush(NULL);  // what is in a buffer now would come from each child
  answer(0);
  while (read(STDIN_FILENO, &asked, 1) == 1) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) return;
    if (child < 0 || waitpid(child, &status, 0) != child) _exit(3);
    answer(status);
  }
  _exit(0);
}

static wtap* open_now(void) {
  open_function* next = (open_function*)dlsym(RTLD_NEXT, "wtap_open_offline");
  int error = 0;
  char* text = NULL;
  wtap* file = next(opened.path, opened.type, &error, &text, opened.random, opened.more);
  if (!file) _exit(CANNOT);
  return file;
}

wtap* wtap_open_offline(const char* path, unsigned type, int* error, char** text, int random, void* more) {
  open_function* next = (open_function*)dlsym(RTLD_NEXT, "wtap_open_offline");
  opened.path = path;
  opened.type = type;
  opened.random = random;
  opened.more = more;
  opened.file = next(path, type, error, text, random, more);
  return opened.file;
}

void* epan_new(struct provider* provider, void* functions) {
  new_function* next = (new_function*)dlsym(RTLD_NEXT, "epan_new");
  void* session = next(provider, functions);
  if (!opened.file || provider->file != opened.file) _exit(CANNOT);  // another structure than is known here
  serve();
  int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  close(nothing);
  provider->file = open_now();
  return session;
}

// To free what tshark's start made takes longer than the rest of a child.
void epan_cleanup(void) {
  if (asked == WHOLE) ((cleanup_function*)dlsym(RTLD_NEXT, "epan_cleanup"))();
}
