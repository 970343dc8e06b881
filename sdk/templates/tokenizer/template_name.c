/* A tokenizer with one token for each byte: the class TemplateNameTokenizer. Ids 0 to 255 are bytes, 256 ends
 * a text. It needs no file beside tokenizer_config.json. */
#include <stdio.h>
#include <string.h>

#include <weft/define_plugin.h>
#include <weft/tokenizer.h>

enum { kEnd = 256, kSize = 257 };
static const weft_str kEndSpelling = {"<end>", 5};

/* All folders have the same tokenizer. A tokenizer with a vocabulary keeps it here. */
struct weft_folder_tokenizer {
  int64_t size;
};

static weft_status open_folder(const weft_tokenizer_class* tokenizer_class, weft_str name, weft_str folder,
                               weft_folder_tokenizer** own, weft_error* error) {
  (void)tokenizer_class, (void)name;
  static weft_folder_tokenizer only = {kSize};
  (void)folder;
  (void)error;
  *own = &only;
  return WEFT_OK;
}

static void close_tokenizer(weft_folder_tokenizer* tokenizer) {
  (void)tokenizer;
}

static weft_status encode(const weft_folder_tokenizer* tokenizer, weft_str text, uint32_t add_special_tokens,
                          const weft_id_sink* ids, weft_error* error) {
  const int64_t end = kEnd;
  uint64_t i;
  (void)tokenizer;
  (void)error;
  for (i = 0; i < text.size; ++i) {
    const int64_t id = (unsigned char)text.data[i];
    ids->append(ids->context, &id, 1);
  }
  if (add_special_tokens) ids->append(ids->context, &end, 1);
  return WEFT_OK;
}

/* Returns how many bytes of UTF-8 a character has that begins with `first`, or 0 if none begins so. */
static unsigned length_of(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

/* Returns whether `next` may follow the bytes of a character of which there are `have`. */
static int may_follow(const unsigned char* bytes, unsigned have, unsigned char next) {
  const unsigned char first = bytes[0];
  unsigned char low = 0x80, high = 0xBF;
  if (have == 1 && first == 0xE0) low = 0xA0;  /* not a longer spelling than it needs */
  if (have == 1 && first == 0xED) high = 0x9F; /* no half of a pair of UTF-16 */
  if (have == 1 && first == 0xF0) low = 0x90;
  if (have == 1 && first == 0xF4) high = 0x8F; /* at most U+10FFFF */
  return next >= low && next <= high;
}

/* Text is UTF-8: U+FFFD stands for bytes that are none, also for a character that is not complete yet. */
static weft_status decode(const weft_folder_tokenizer* tokenizer, const int64_t* ids, uint64_t count,
                          uint32_t skip_special_tokens, const weft_text_sink* text, weft_error* error) {
  unsigned char bytes[4];
  unsigned have = 0;
  uint64_t i;
  (void)tokenizer;
  (void)error;
  for (i = 0; i < count; ++i) {
    const unsigned char byte = (unsigned char)ids[i];
    const int follows = ids[i] != kEnd && have > 0 && may_follow(bytes, have, byte);
    if (have > 0 && !follows) {
      text->append(text->context, WEFT_STR("\xEF\xBF\xBD"));
      have = 0;
    }
    if (ids[i] == kEnd) {
      if (!skip_special_tokens) text->append(text->context, kEndSpelling);
    } else if (follows || length_of(byte) > 0) {
      bytes[have++] = byte;
      if (have == length_of(bytes[0])) {
        text->append(text->context, (weft_str){(const char*)bytes, have});
        have = 0;
      }
    } else {
      text->append(text->context, WEFT_STR("\xEF\xBF\xBD"));
    }
  }
  if (have > 0) text->append(text->context, WEFT_STR("\xEF\xBF\xBD"));
  return WEFT_OK;
}

static int64_t size_of(const weft_folder_tokenizer* tokenizer) {
  return tokenizer->size;
}

/* A byte of ASCII that can be seen is spelled as itself, another one as "<0x0A>". */
static void spelling(const weft_folder_tokenizer* tokenizer, int64_t id, const weft_text_sink* text) {
  char spelled[8];
  (void)tokenizer;
  if (id == kEnd) {
    text->append(text->context, kEndSpelling);
  } else if (id > 0x20 && id < 0x7F) {
    spelled[0] = (char)id;
    text->append(text->context, (weft_str){spelled, 1});
  } else {
    snprintf(spelled, sizeof spelled, "<0x%02X>", (unsigned)(id & 0xFF));
    text->append(text->context, (weft_str){spelled, 6});
  }
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int64_t find_spelling(const weft_folder_tokenizer* tokenizer, weft_str spelled) {
  const char* s = spelled.data;
  (void)tokenizer;
  if (spelled.size == kEndSpelling.size && memcmp(s, kEndSpelling.data, spelled.size) == 0) return kEnd;
  if (spelled.size == 1 && s[0] > 0x20 && s[0] < 0x7F) return s[0];
  if (spelled.size == 6 && memcmp(s, "<0x", 3) == 0 && s[5] == '>' && hex_digit(s[3]) >= 0 &&
      hex_digit(s[4]) >= 0)
    return 16 * hex_digit(s[3]) + hex_digit(s[4]);
  return -1;
}

static int64_t role(const weft_folder_tokenizer* tokenizer, uint32_t of) {
  (void)tokenizer;
  return of == WEFT_TOKEN_END ? kEnd : -1;
}

/* The names of the files that decide the ids, which are copied beside a model that is saved: there are none.
 */
static weft_str file_name(const weft_folder_tokenizer* tokenizer, uint64_t index) {
  (void)tokenizer;
  (void)index;
  return (weft_str){NULL, 0};
}

static int equal(weft_str text, const char* other) {
  return text.size == strlen(other) && memcmp(text.data, other, text.size) == 0;
}

static const weft_tokenizer_class* find_class(const weft_tokenizer_factory* factory, weft_str name) {
  (void)factory;
  static const weft_tokenizer_class kClass = {sizeof(weft_tokenizer_class),
                                              NULL,
                                              open_folder,
                                              close_tokenizer,
                                              encode,
                                              NULL, /* it has no pairs of texts */
                                              decode,
                                              size_of,
                                              spelling,
                                              find_spelling,
                                              role,
                                              file_name};
  return equal(name, "TemplateNameTokenizer") ? &kClass : NULL;
}

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  (void)plugin;
  static const weft_tokenizer_factory kFactory = {sizeof(weft_tokenizer_factory), find_class};
  return equal(id, WEFT_FACTORY_TOKENIZER) ? &kFactory : NULL;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)
