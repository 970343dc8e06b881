/* The ELF note that describes a plugin, so that the host can check it before it loads the library. The owner
 * is "WEFT", the type is 1, and the text has lines "key=value": id, version, tier, abi, and torch where the
 * tier needs it. `weft_add_plugin()` writes the text from plugin.json and adds the note to the library, so
 * authors rarely use this header themselves. */
#ifndef WEFT_NOTE_H
#define WEFT_NOTE_H

#include <stdint.h>

/* The section of the note, and its type. */
#define WEFT_NOTE_SECTION ".note.weft"
#define WEFT_NOTE_TYPE 1

/* Defines the note in this translation unit; `text` is a string literal. */
#define WEFT_PLUGIN_NOTE(text)                                                        \
  __attribute__((used, section(WEFT_NOTE_SECTION), aligned(4))) static const struct { \
    uint32_t name_size, text_size, type;                                              \
    char name[8];                                                                     \
    char body[(sizeof(text) + 3) / 4 * 4];                                            \
  } weft_plugin_note = {5, sizeof(text), WEFT_NOTE_TYPE, "WEFT", text}

#endif
