/* Classes of tokenizers with one mistake each, and one without: FiveTokens. A text becomes the ids of its
 * bytes modulo 5, and of ids each becomes a letter from 'a' to 'e'. */
#include <string.h>
#include <weft/define_plugin.h>
#include <weft/tokenizer.h>

struct weft_folder_tokenizer {
  int64_t size;
};

static const weft_host* host(void);
static weft_folder_tokenizer five = {5}, none = {0};

static weft_status open_five(const weft_tokenizer_class* table, weft_str name, weft_str folder,
                             weft_folder_tokenizer** own, weft_error* error) {
  (void)table, (void)name, (void)folder, (void)error;
  *own = &five;
  return WEFT_OK;
}
static weft_status open_empty(const weft_tokenizer_class* table, weft_str name, weft_str folder,
                              weft_folder_tokenizer** own, weft_error* error) {
  (void)table, (void)name, (void)folder, (void)error;
  *own = &none;
  return WEFT_OK;
}
static weft_status open_nothing(const weft_tokenizer_class* table, weft_str name, weft_str folder,
                                weft_folder_tokenizer** own, weft_error* error) {
  (void)table, (void)name, (void)folder, (void)error, (void)own;
  return WEFT_OK;
}
static void close_it(weft_folder_tokenizer* tokenizer) {
  (void)tokenizer;
}
static weft_status encode(const weft_folder_tokenizer* tokenizer, weft_str text, uint32_t add_special_tokens,
                          const weft_id_sink* ids, weft_error* error) {
  (void)tokenizer, (void)error, (void)add_special_tokens;
  for (uint64_t i = 0; i < text.size; ++i) {
    const int64_t id = (unsigned char)text.data[i] % 5;
    ids->append(ids->context, &id, 1);
  }
  return WEFT_OK;
}
static weft_status encode_beyond(const weft_folder_tokenizer* tokenizer, weft_str text,
                                 uint32_t add_special_tokens, const weft_id_sink* ids, weft_error* error) {
  const int64_t id = 5;
  (void)tokenizer, (void)error, (void)add_special_tokens, (void)text;
  ids->append(ids->context, &id, 1);
  return WEFT_OK;
}
static weft_status encode_refuses(const weft_folder_tokenizer* tokenizer, weft_str text,
                                  uint32_t add_special_tokens, const weft_id_sink* ids, weft_error* error) {
  (void)tokenizer, (void)add_special_tokens, (void)text, (void)ids;
  host()->error_set(error, WEFT_INVALID_ARGUMENT, WEFT_STR("no token spells it"));
  return WEFT_INVALID_ARGUMENT;
}
static weft_status encode_pair(const weft_folder_tokenizer* tokenizer, weft_str first, weft_str second,
                               const weft_id_sink* ids, const weft_id_sink* types, weft_error* error) {
  const int64_t zero = 0, one = 1;
  for (uint64_t i = 0; i < first.size; ++i) types->append(types->context, &zero, 1);
  for (uint64_t i = 0; i < second.size; ++i) types->append(types->context, &one, 1);
  return encode(tokenizer, first, 0, ids, error) || encode(tokenizer, second, 0, ids, error);
}
static weft_status pair_of_one_type(const weft_folder_tokenizer* tokenizer, weft_str first, weft_str second,
                                    const weft_id_sink* ids, const weft_id_sink* types, weft_error* error) {
  const int64_t zero = 0;
  types->append(types->context, &zero, 1);
  return encode(tokenizer, first, 0, ids, error) || encode(tokenizer, second, 0, ids, error);
}
static weft_status decode(const weft_folder_tokenizer* tokenizer, const int64_t* ids, uint64_t count,
                          uint32_t skip_special_tokens, const weft_text_sink* text, weft_error* error) {
  (void)tokenizer, (void)error, (void)skip_special_tokens;
  for (uint64_t i = 0; i < count; ++i) {
    const char letter = (char)('a' + ids[i]);
    text->append(text->context, (weft_str){&letter, 1});
  }
  return WEFT_OK;
}
static int64_t size_of(const weft_folder_tokenizer* tokenizer) {
  return tokenizer->size;
}
static void spelling(const weft_folder_tokenizer* tokenizer, int64_t id, const weft_text_sink* text) {
  (void)decode(tokenizer, &id, 1, 0, text, NULL);
}
static int64_t find(const weft_folder_tokenizer* tokenizer, weft_str token) {
  (void)tokenizer;
  return token.size == 1 && token.data[0] >= 'a' && token.data[0] <= 'e' ? token.data[0] - 'a' : -1;
}
static int64_t no_role(const weft_folder_tokenizer* tokenizer, uint32_t of) {
  (void)tokenizer;
  return of == WEFT_TOKEN_END ? 4 : -1;
}
static int64_t role_beyond(const weft_folder_tokenizer* tokenizer, uint32_t of) {
  (void)tokenizer;
  return of == WEFT_TOKEN_PADDING ? 5 : -1;
}
static weft_str no_file(const weft_folder_tokenizer* tokenizer, uint64_t index) {
  (void)tokenizer, (void)index;
  return (weft_str){NULL, 0};
}
static weft_str file_outside(const weft_folder_tokenizer* tokenizer, uint64_t index) {
  (void)tokenizer, (void)index;
  return WEFT_STR("../secrets.txt");
}
static weft_str missing_file(const weft_folder_tokenizer* tokenizer, uint64_t index) {
  (void)tokenizer;
  return index == 0 ? WEFT_STR("letters.txt") : (weft_str){NULL, 0};
}

#define CLASS(name, open, encode, pair, decode, role, file)               \
  static const weft_tokenizer_class name = {sizeof(weft_tokenizer_class), \
                                            NULL,                         \
                                            open,                         \
                                            close_it,                     \
                                            encode,                       \
                                            pair,                         \
                                            decode,                       \
                                            size_of,                      \
                                            spelling,                     \
                                            find,                         \
                                            role,                         \
                                            file};
CLASS(kFiveTokens, open_five, encode, encode_pair, decode, no_role, no_file)
CLASS(kNoTokens, open_empty, encode, encode_pair, decode, no_role, no_file)
CLASS(kOpensNothing, open_nothing, encode, encode_pair, decode, no_role, no_file)
CLASS(kIdsBeyond, open_five, encode_beyond, encode_pair, decode, no_role, no_file)
CLASS(kRefuses, open_five, encode_refuses, NULL, decode, no_role, no_file)
CLASS(kOneType, open_five, encode, pair_of_one_type, decode, no_role, no_file)
CLASS(kRoleBeyond, open_five, encode, encode_pair, decode, role_beyond, no_file)
CLASS(kFileOutside, open_five, encode, encode_pair, decode, no_role, file_outside)
CLASS(kMissingFile, open_five, encode, encode_pair, decode, no_role, missing_file)
CLASS(kNoDecode, open_five, encode, encode_pair, NULL, no_role, no_file)

static const weft_tokenizer_class* find_class(const weft_tokenizer_factory* factory, weft_str name) {
  static const struct {
    const char* name;
    const weft_tokenizer_class* functions;
  } classes[] = {{"FiveTokens", &kFiveTokens},     {"NoTokens", &kNoTokens},
                 {"OpensNothing", &kOpensNothing}, {"IdsBeyond", &kIdsBeyond},
                 {"Refuses", &kRefuses},           {"OneType", &kOneType},
                 {"RoleBeyond", &kRoleBeyond},     {"FileOutside", &kFileOutside},
                 {"MissingFile", &kMissingFile},   {"NoDecode", &kNoDecode}};
  for (size_t i = 0; i < sizeof classes / sizeof classes[0]; ++i)
    if (strlen(classes[i].name) == name.size && memcmp(classes[i].name, name.data, name.size) == 0)
      return classes[i].functions;
  return NULL;
}

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  static const weft_tokenizer_factory factory = {sizeof(weft_tokenizer_factory), find_class};
  static const char wanted[] = WEFT_FACTORY_TOKENIZER;
  return id.size == sizeof wanted - 1 && memcmp(id.data, wanted, id.size) == 0 ? &factory : NULL;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

static const weft_host* host(void) {
  return weft_plugin_host;
}
