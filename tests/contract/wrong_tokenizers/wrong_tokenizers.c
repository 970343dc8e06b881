/* Classes of tokenizers with a token for each byte, each but the first with one mistake. */
#include <string.h>
#include <weft/define_plugin.h>
#include <weft/tokenizer.h>

struct weft_folder_tokenizer {
  int unused;
};

enum { kSize = 256 };
static char bytes[kSize];
static int64_t calls;

static weft_status open_folder(const weft_tokenizer_class* table, weft_str name, weft_str folder,
                               weft_folder_tokenizer** own, weft_error* error) {
  static weft_folder_tokenizer only;
  for (int i = 0; i < kSize; ++i) bytes[i] = (char)i;
  *own = &only;
  return WEFT_OK;
}
static void close_folder(weft_folder_tokenizer* tokenizer) {}

static weft_status encode(const weft_folder_tokenizer* tokenizer, weft_str text, uint32_t special,
                          const weft_id_sink* ids, weft_error* error) {
  for (uint64_t i = 0; i < text.size; ++i) {
    const int64_t id = (unsigned char)text.data[i];
    ids->append(ids->context, &id, 1);
  }
  return WEFT_OK;
}
static weft_status decode(const weft_folder_tokenizer* tokenizer, const int64_t* ids, uint64_t count,
                          uint32_t skip, const weft_text_sink* text, weft_error* error) {
  for (uint64_t i = 0; i < count; ++i) text->append(text->context, (weft_str){&bytes[ids[i]], 1});
  return WEFT_OK;
}
static int64_t size(const weft_folder_tokenizer* tokenizer) {
  return kSize;
}
static void spelling(const weft_folder_tokenizer* tokenizer, int64_t id, const weft_text_sink* text) {
  if (id < 128) text->append(text->context, (weft_str){&bytes[id], 1});
}
static int64_t find(const weft_folder_tokenizer* tokenizer, weft_str spelling) {
  return spelling.size == 1 ? (unsigned char)spelling.data[0] : -1;
}
static int64_t role(const weft_folder_tokenizer* tokenizer, uint32_t role) {
  return -1;
}
static weft_str file(const weft_folder_tokenizer* tokenizer, uint64_t index) {
  return (weft_str){NULL, 0};
}

/* The mistakes. */
static weft_status counts_calls(const weft_folder_tokenizer* tokenizer, weft_str text, uint32_t special,
                                const weft_id_sink* ids, weft_error* error) {
  const int64_t first = 'a' + __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % 20;
  ids->append(ids->context, &first, 1);
  return encode(tokenizer, text, special, ids, error);
}
static weft_status marks_text(const weft_folder_tokenizer* tokenizer, weft_str text, uint32_t special,
                              const weft_id_sink* ids, weft_error* error) {
  const int64_t mark = '_';
  ids->append(ids->context, &mark, 1);
  return encode(tokenizer, text, special, ids, error);
}
static weft_status writes_backwards(const weft_folder_tokenizer* tokenizer, const int64_t* ids,
                                    uint64_t count, uint32_t skip, const weft_text_sink* text,
                                    weft_error* error) {
  while (count > 0) text->append(text->context, (weft_str){&bytes[ids[--count]], 1});
  return WEFT_OK;
}
static int64_t finds_the_next(const weft_folder_tokenizer* tokenizer, weft_str spelling) {
  return spelling.size == 1 ? (unsigned char)spelling.data[0] + 1 : -1;
}
static weft_status encodes_nothing(const weft_folder_tokenizer* tokenizer, weft_str text, uint32_t special,
                                   const weft_id_sink* ids, weft_error* error) {
  return WEFT_OK;
}
static weft_status refuses_every_text(const weft_folder_tokenizer* tokenizer, weft_str text, uint32_t special,
                                      const weft_id_sink* ids, weft_error* error) {
  return WEFT_INVALID_ARGUMENT;
}
static weft_status shares_a_buffer(const weft_folder_tokenizer* tokenizer, weft_str text, uint32_t special,
                                   const weft_id_sink* ids, weft_error* error) {
  static char buffer[4096];
  const uint64_t count = text.size < sizeof buffer ? text.size : sizeof buffer;
  if (count > 0) memcpy(buffer, text.data, count);
  for (volatile int i = 0; i < 20000; ++i) {
  }
  return encode(tokenizer, (weft_str){buffer, count}, special, ids, error);
}

#define CLASS(name, encodes, decodes, finds)                              \
  static const weft_tokenizer_class name = {sizeof(weft_tokenizer_class), \
                                            NULL,                         \
                                            open_folder,                  \
                                            close_folder,                 \
                                            encodes,                      \
                                            NULL,                         \
                                            decodes,                      \
                                            size,                         \
                                            spelling,                     \
                                            finds,                        \
                                            role,                         \
                                            file};
CLASS(right_bytes, encode, decode, find)
CLASS(counting, counts_calls, decode, find)
CLASS(marking, marks_text, decode, find)
CLASS(backwards, encode, writes_backwards, find)
CLASS(finding, encode, decode, finds_the_next)
CLASS(empty, encodes_nothing, decode, find)
CLASS(refusing, refuses_every_text, decode, find)
CLASS(sharing, shares_a_buffer, decode, find)

static int is(weft_str name, const char* other) {
  return name.size == strlen(other) && memcmp(name.data, other, name.size) == 0;
}

static const weft_tokenizer_class* find_class(const weft_tokenizer_factory* factory, weft_str name) {
  return is(name, "RightBytes")         ? &right_bytes
         : is(name, "CountsCalls")      ? &counting
         : is(name, "MarksText")        ? &marking
         : is(name, "WritesBackwards")  ? &backwards
         : is(name, "FindsTheNext")     ? &finding
         : is(name, "EncodesNothing")   ? &empty
         : is(name, "RefusesEveryText") ? &refusing
         : is(name, "SharesABuffer")    ? &sharing
                                        : NULL;
}

static const weft_tokenizer_factory factory = {sizeof(weft_tokenizer_factory), find_class};

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  return is(id, WEFT_FACTORY_TOKENIZER) ? &factory : NULL;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)
