/* A kind of tokenizer: text to token ids and back. Factory "weft.factory.tokenizer/1", tier c.
 *
 * A library provides names of classes. When a model folder is opened whose tokenizer_config.json has one of
 * them as "tokenizer_class", its library is the tokenizer of this folder, and the host does not read its
 * vocabulary. The host reads "padding_side", "truncation_side" and the chat template from the folder itself.
 * All text is UTF-8. Functions may be called from several threads at once; the same files and arguments give
 * the same results.
 */
#ifndef WEFT_TOKENIZER_H
#define WEFT_TOKENIZER_H

#include "types.h"

WEFT_BEGIN_C

/* The id of the factory. */
#define WEFT_FACTORY_TOKENIZER "weft.factory.tokenizer/1"

/* Roles of tokens. */
#define WEFT_TOKEN_BEGIN 0u     /* begins a text */
#define WEFT_TOKEN_END 1u       /* ends a text */
#define WEFT_TOKEN_UNKNOWN 2u   /* stands for text that no token spells */
#define WEFT_TOKEN_SEPARATOR 3u /* separates two texts */
#define WEFT_TOKEN_PADDING 4u
#define WEFT_TOKEN_CLASS 5u /* whose output classifies the text */
#define WEFT_TOKEN_MASK 6u  /* stands for a token that the model predicts */
#define WEFT_TOKEN_ROLES 7u /* how many there are */

/* The tokenizer of one folder. */
typedef struct weft_folder_tokenizer weft_folder_tokenizer;

/* Where a library appends ids, any number of times; they are copied. */
typedef struct weft_id_sink {
  void* context;
  /* [any thread] [no collective] since 0.2 */
  void (*append)(void* context, const int64_t* ids, uint64_t count);
} weft_id_sink;

/* The functions of a class of tokenizers. */
typedef struct weft_tokenizer_class weft_tokenizer_class;
struct weft_tokenizer_class {
  uint64_t struct_size;
  void* context; /* of the library's own */

  /* Reads the files of a model folder. `name` is that of the class under which it was found. Errors:
   * NOT_FOUND names the file that was looked for; DATA_LOSS names a damaged file and what is wrong with it.
   * [any thread, io] [no collective] since 0.2 */
  weft_status (*open)(const weft_tokenizer_class* tokenizer_class, weft_str name, weft_str folder,
                      weft_folder_tokenizer** own, weft_error* error);
  /* Destroys a tokenizer. [any thread] [no collective] since 0.2 */
  void (*close)(weft_folder_tokenizer* tokenizer);

  /* Appends the ids of a text; unless `add_special_tokens` is 0, with the tokens that stand around one text.
   * Errors: INVALID_ARGUMENT for text that has no ids. [any thread] [no collective] since 0.2 */
  weft_status (*encode)(const weft_folder_tokenizer* tokenizer, weft_str text, uint32_t add_special_tokens,
                        const weft_id_sink* ids, weft_error* error);
  /* Appends the ids of two texts with the tokens around and between them, and for each id its type: 0 in the
   * first text, 1 in the second. May be NULL: the class has no pairs. [any thread] [no collective] since 0.2
   */
  weft_status (*encode_pair)(const weft_folder_tokenizer* tokenizer, weft_str first, weft_str second,
                             const weft_id_sink* ids, const weft_id_sink* types, weft_error* error);
  /* Appends the text of ids; unless `skip_special_tokens` is 0, without those of special tokens. All ids are
   * in [0, size). Further ids may only append to the text, but for U+FFFD at its end, which stands for bytes
   * of a character that is not complete. [any thread] [no collective] since 0.2 */
  weft_status (*decode)(const weft_folder_tokenizer* tokenizer, const int64_t* ids, uint64_t count,
                        uint32_t skip_special_tokens, const weft_text_sink* text, weft_error* error);

  /* Returns one more than the largest id. [any thread] [no collective] since 0.2 */
  int64_t (*size)(const weft_folder_tokenizer* tokenizer);
  /* Appends the spelling of a token; nothing if there is none. [any thread] [no collective] since 0.2 */
  void (*spelling)(const weft_folder_tokenizer* tokenizer, int64_t id, const weft_text_sink* text);
  /* Returns the id of the token with this spelling, or -1. [any thread] [no collective] since 0.2 */
  int64_t (*find)(const weft_folder_tokenizer* tokenizer, weft_str spelling);
  /* Returns the id of the token with this role (WEFT_TOKEN_*), or -1. [any thread] [no collective] since 0.2
   */
  int64_t (*role)(const weft_folder_tokenizer* tokenizer, uint32_t role);
  /* Returns the name of file number `index` of the folder that decides the ids, without folders, and NULL as
   * its `data` behind the last one. The host copies these files beside a model that it saves, and compares
   * them between ranks and runs. Valid until the tokenizer is closed. [any thread] [no collective] since 0.2
   */
  weft_str (*file)(const weft_folder_tokenizer* tokenizer, uint64_t index);
};

/* What get_factory(WEFT_FACTORY_TOKENIZER) returns. `find` returns the class of a name, or NULL. */
typedef struct weft_tokenizer_factory weft_tokenizer_factory;
struct weft_tokenizer_factory {
  uint64_t struct_size;
  /* [any thread] [no collective] since 0.2 */
  const weft_tokenizer_class* (*find)(const weft_tokenizer_factory* factory, weft_str name);
};

WEFT_END_C

#endif
