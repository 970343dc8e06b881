/* A tokenizer with one token for each character: the class CharacterTokenizer. A model folder has the
 * characters in characters.txt, one after the other, and {"tokenizer_class": "CharacterTokenizer"} in
 * tokenizer_config.json. Token 0 stands for all other characters, token 1 ends a text, and token 2 is the
 * first character of the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/define_plugin.h>
#include <weft/tokenizer.h>

enum { kUnknown = 0, kEnd = 1, kFirst = 2 };

static const weft_host* host(void);

struct weft_folder_tokenizer {
  char* text;          /* the file */
  weft_str* spellings; /* of its characters */
  int64_t count;
};

static const weft_str kSpecial[kFirst] = {{"<unknown>", 9}, {"<end>", 5}};

static weft_status refuse(weft_error* error, weft_status status, const char* path, const char* what) {
  char text[4096];
  const int size = snprintf(text, sizeof text, "%s: %s", path, what);
  const uint64_t written = size < 0 ? 0 : (uint64_t)size < sizeof text ? (uint64_t)size : sizeof text - 1;
  host()->error_set(error, status, (weft_str){text, written});
  return status;
}

/* Returns the bytes of the first character of a text, which is not empty. */
static uint64_t character_size(const char* text, uint64_t size) {
  uint64_t bytes = 1;
  while (bytes < size && ((unsigned char)text[bytes] & 0xC0) == 0x80) ++bytes;
  return bytes;
}

static int64_t find(const weft_folder_tokenizer* tokenizer, weft_str spelling) {
  for (int64_t i = 0; i < kFirst; ++i)
    if (spelling.size == kSpecial[i].size && memcmp(spelling.data, kSpecial[i].data, spelling.size) == 0)
      return i;
  for (int64_t i = 0; i < tokenizer->count; ++i) {
    const weft_str character = tokenizer->spellings[i];
    if (spelling.size == character.size && memcmp(spelling.data, character.data, spelling.size) == 0)
      return kFirst + i;
  }
  return -1;
}

static void close_tokenizer(weft_folder_tokenizer* tokenizer) {
  if (tokenizer == NULL) return;
  free(tokenizer->text);
  free(tokenizer->spellings);
  free(tokenizer);
}

/* Divides the text of the file into characters. */
static weft_status divide(weft_folder_tokenizer* tokenizer, uint64_t size, const char* path,
                          weft_error* error) {
  tokenizer->spellings = malloc((size + 1) * sizeof(weft_str));
  if (tokenizer->spellings == NULL)
    return refuse(error, WEFT_RESOURCE_EXHAUSTED, path, "there is no memory for it");
  for (uint64_t at = 0; at < size;) {
    const weft_str character = {tokenizer->text + at, character_size(tokenizer->text + at, size - at)};
    if (find(tokenizer, character) >= 0) return refuse(error, WEFT_DATA_LOSS, path, "has a character twice");
    tokenizer->spellings[tokenizer->count++] = character;
    at += character.size;
  }
  return tokenizer->count > 0 ? WEFT_OK : refuse(error, WEFT_DATA_LOSS, path, "is empty");
}

static weft_status open_folder(const weft_tokenizer_class* tokenizer_class, weft_str name, weft_str folder,
                               weft_folder_tokenizer** own, weft_error* error) {
  (void)tokenizer_class, (void)name;
  enum { kLongest = 1 << 16 };
  char path[4096];
  weft_folder_tokenizer* tokenizer = NULL;
  FILE* file = NULL;
  uint64_t size = 0;
  weft_status status = WEFT_OK;
  snprintf(path, sizeof path, "%.*s/characters.txt", (int)folder.size, folder.data);
  file = fopen(path, "rb");
  if (file == NULL) return refuse(error, WEFT_NOT_FOUND, path, "cannot be opened");
  tokenizer = calloc(1, sizeof *tokenizer);
  if (tokenizer != NULL) tokenizer->text = malloc(kLongest);
  if (tokenizer == NULL || tokenizer->text == NULL) {
    status = refuse(error, WEFT_RESOURCE_EXHAUSTED, path, "there is no memory for it");
  } else {
    size = fread(tokenizer->text, 1, kLongest, file);
    status = size == kLongest ? refuse(error, WEFT_DATA_LOSS, path, "is longer than 64 KiB")
                              : divide(tokenizer, size, path, error);
  }
  fclose(file);
  if (status == WEFT_OK)
    *own = tokenizer;
  else
    close_tokenizer(tokenizer);
  return status;
}

static weft_status encode(const weft_folder_tokenizer* tokenizer, weft_str text, uint32_t add_special_tokens,
                          const weft_id_sink* ids, weft_error* error) {
  const int64_t end = kEnd;
  (void)error;
  for (uint64_t at = 0; at < text.size;) {
    const weft_str character = {text.data + at, character_size(text.data + at, text.size - at)};
    const int64_t found = find(tokenizer, character);
    const int64_t id = found < 0 ? kUnknown : found;
    ids->append(ids->context, &id, 1);
    at += character.size;
  }
  if (add_special_tokens) ids->append(ids->context, &end, 1);
  return WEFT_OK;
}

static weft_str spelling_of(const weft_folder_tokenizer* tokenizer, int64_t id) {
  return id < kFirst ? kSpecial[id] : tokenizer->spellings[id - kFirst];
}

static weft_status decode(const weft_folder_tokenizer* tokenizer, const int64_t* ids, uint64_t count,
                          uint32_t skip_special_tokens, const weft_text_sink* text, weft_error* error) {
  (void)error;
  for (uint64_t i = 0; i < count; ++i)
    if (ids[i] >= kFirst || !skip_special_tokens) text->append(text->context, spelling_of(tokenizer, ids[i]));
  return WEFT_OK;
}

static int64_t size_of(const weft_folder_tokenizer* tokenizer) {
  return kFirst + tokenizer->count;
}

static void spelling(const weft_folder_tokenizer* tokenizer, int64_t id, const weft_text_sink* text) {
  text->append(text->context, spelling_of(tokenizer, id));
}

static int64_t role(const weft_folder_tokenizer* tokenizer, uint32_t of) {
  (void)tokenizer;
  return of == WEFT_TOKEN_UNKNOWN ? kUnknown : of == WEFT_TOKEN_END ? kEnd : -1;
}

static weft_str file_name(const weft_folder_tokenizer* tokenizer, uint64_t index) {
  (void)tokenizer;
  return index == 0 ? WEFT_STR("characters.txt") : (weft_str){NULL, 0};
}

static const weft_tokenizer_class* find_class(const weft_tokenizer_factory* factory, weft_str name) {
  (void)factory;
  static const weft_tokenizer_class kClass = {sizeof(weft_tokenizer_class),
                                              NULL,
                                              open_folder,
                                              close_tokenizer,
                                              encode,
                                              NULL,
                                              decode,
                                              size_of,
                                              spelling,
                                              find,
                                              role,
                                              file_name};
  static const weft_str kName = {"CharacterTokenizer", 18};
  return name.size == kName.size && memcmp(name.data, kName.data, name.size) == 0 ? &kClass : NULL;
}

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  (void)plugin;
  static const weft_tokenizer_factory kFactory = {sizeof(weft_tokenizer_factory), find_class};
  static const weft_str kId = {WEFT_FACTORY_TOKENIZER, sizeof(WEFT_FACTORY_TOKENIZER) - 1};
  return id.size == kId.size && memcmp(id.data, kId.data, id.size) == 0 ? &kFactory : NULL;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

static const weft_host* host(void) {
  return weft_plugin_host;
}
