// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts malloc calls in the regions of a punctual_allocation_guard. Opt-in: compile this file into
 * the program.
 *
 *   GNU C library, dynamic:  cc program.c punctual_malloc.c -lpunctual_kit
 *   others, and static ones: cc -DPUNCTUAL_MALLOC_WRAP program.c punctual_malloc.c
 *       -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free,--wrap=aligned_alloc
 *       -Wl,--wrap=posix_memalign -lpunctual_kit
 *
 * The second method does not count calls from shared libraries. Outside regions, a call costs one
 * read of a byte.
 */
#include "punctual.h"

#include <errno.h>
#include <stddef.h>

#ifdef PUNCTUAL_MALLOC_WRAP
#define OWN(name) __wrap_##name
#define REAL(name) __real_##name
#else
#include <features.h>
#ifndef __GLIBC__
#error "this C library has no __libc_malloc: see PUNCTUAL_MALLOC_WRAP above"
#endif
#define OWN(name) name
#define REAL(name) __libc_##name
#endif

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *address, size_t size);
void REAL(free)(void *address);

/* The program itself contains this variable, so accessing it never allocates memory. */
static _Thread_local punctual_allocation_state_t state;

static punctual_allocation_state_t *state_of_thread(void) { return &state; }

__attribute__((constructor)) static void install(void) {
  punctual_allocation_install(state_of_thread);
}

#define SEEN()                                                                               \
  do {                                                                                       \
    if (__builtin_expect(state.in_region, 0))                                                \
      seen((uint64_t)(uintptr_t)__builtin_return_address(0));                                \
  } while (0)

static __attribute__((noinline, cold)) void seen(uint64_t address) {
  if (state.count++ == 0)
    state.first_address = address;
}

void *OWN(malloc)(size_t size) {
  SEEN();
  return REAL(malloc)(size);
}

void *OWN(calloc)(size_t count, size_t size) {
  SEEN();
  return REAL(calloc)(count, size);
}

void *OWN(realloc)(void *address, size_t size) {
  SEEN();
  return REAL(realloc)(address, size);
}

void OWN(free)(void *address) {
  SEEN();
  REAL(free)(address);
}

#ifdef PUNCTUAL_MALLOC_WRAP
void *REAL(aligned_alloc)(size_t alignment, size_t size);
int REAL(posix_memalign)(void **address, size_t alignment, size_t size);

void *OWN(aligned_alloc)(size_t alignment, size_t size) {
  SEEN();
  return REAL(aligned_alloc)(alignment, size);
}

int OWN(posix_memalign)(void **address, size_t alignment, size_t size) {
  SEEN();
  return REAL(posix_memalign)(address, alignment, size);
}
#else
void *__libc_memalign(size_t alignment, size_t size);

static int is_power_of_two(size_t number) { return number && !(number & (number - 1)); }

void *memalign(size_t alignment, size_t size) {
  SEEN();
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  SEEN();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **address, size_t alignment, size_t size) {
  void *memory;

  SEEN();
  if (alignment % sizeof(void *) || !is_power_of_two(alignment))
    return EINVAL;
  memory = __libc_memalign(alignment, size);
  if (!memory)
    return ENOMEM;
  *address = memory;
  return 0;
}
#endif
