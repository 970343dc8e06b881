/* Tokenizers and generating tokens. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/generation.h>

#include "test.h"

enum { NEW_TOKENS = 6, MOST = 64 };

static weft_ids ids_of(const int64_t* ids, uint64_t count) {
  return (weft_ids){ids, count};
}

static void text_becomes_ids_and_text_again(void) {
  if (place.rank != 0) return; /* ranks share the folder */
  weft_tokenizer* tokenizer = NULL;
  weft_tensor *ids = NULL, *text = NULL;
  weft_tensor_info info = {.struct_size = sizeof(info)};
  REFUSED(WEFT_NOT_FOUND, weft_tokenizer_open(runtime, str(place.folder), &tokenizer, error), place.folder);
  mkdir(in_folder("tokenizer"), 0755);
  write_file(in_folder("tokenizer/vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n##s\n");
  OK(weft_tokenizer_open(runtime, str(in_folder("tokenizer")), &tokenizer, error));
  OK(weft_tokenizer_encode(tokenizer, str("hello worlds"), 1, &ids, error));
  OK(weft_tensor_describe(ids, &info, error));
  const int64_t expected[5] = {2, 5, 6, 7, 3};
  REQUIRE(info.dtype == WEFT_I64 && info.ndim == 1 && info.size_bytes == sizeof(expected));
  EXPECT(memcmp(info.data, expected, sizeof(expected)) == 0);
  for (uint32_t skip = 0; skip < 2; ++skip) {
    const char* wanted = skip ? "hello worlds" : "[CLS] hello worlds [SEP]";
    OK(weft_tokenizer_decode(tokenizer, ids_of(expected, 5), skip, &text, error));
    OK(weft_tensor_describe(text, &info, error));
    EXPECT(info.dtype == WEFT_U8 && info.size_bytes == strlen(wanted) &&
           memcmp(info.data, wanted, info.size_bytes) == 0);
    weft_tensor_destroy(text);
  }
  weft_tensor_destroy(ids);
  OK(weft_tokenizer_encode(tokenizer, str("hello"), 0, &ids, error));
  OK(weft_tensor_describe(ids, &info, error));
  EXPECT(info.size_bytes == sizeof(int64_t) && *(const int64_t*)info.data == 5);
  REFUSED(WEFT_INVALID_ARGUMENT, weft_tokenizer_encode(NULL, str("x"), 0, &ids, error), "tokenizer is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_tokenizer_decode(tokenizer, ids_of(NULL, 1), 0, &text, error),
          "ids is null");
  weft_tensor_destroy(ids);
  weft_tokenizer_destroy(tokenizer);
  weft_tokenizer_destroy(NULL);
}

/* What the callbacks saw. */
typedef struct seen {
  int64_t ids[MOST]; /* of all sequences */
  uint64_t count, sequences;
  uint64_t tokens;    /* that were told one by one */
  uint64_t end_after; /* of these; 0: never */
  uint32_t stopped;   /* of the last sequence */
} seen;

static uint32_t on_token(void* context, const weft_chosen_token* token) {
  seen* all = context;
  EXPECT(token->prompt >= 0 && token->sample >= 0 && token->id >= 0 && token->id < 256);
  return ++all->tokens != all->end_after;
}

static void on_sequence(void* context, const weft_sequence* sequence) {
  seen* all = context;
  EXPECT(sequence->struct_size == sizeof(weft_sequence));
  EXPECT(all->count + sequence->ids.size <= MOST);
  memcpy(all->ids + all->count, sequence->ids.data, sequence->ids.size * sizeof(int64_t));
  all->count += sequence->ids.size;
  all->stopped = sequence->stopped;
  ++all->sequences;
}

static weft_status generate(weft_job* job, const weft_ids* prompts, uint64_t count, weft_str options,
                            seen* all, uint32_t (*token)(void*, const weft_chosen_token*)) {
  const weft_generation_arguments arguments = {.struct_size = sizeof(arguments),
                                               .prompts = prompts,
                                               .num_prompts = count,
                                               .options = options,
                                               .context = all,
                                               .token = token,
                                               .sequence = on_sequence};
  return weft_job_generate(job, &arguments, error);
}

/* The id with the largest logit behind these ids, by a forward pass over all of them. */
static int64_t likeliest(test_job* job, const int64_t* ids, int64_t count) {
  const int64_t shape[2] = {1, count};
  weft_tensor *tensor = NULL, *logits = NULL;
  weft_tensor_info info = {.struct_size = sizeof(info)};
  OK(create_tensor(WEFT_I64, shape, 2, ids, (uint64_t)count * sizeof(int64_t), &tensor));
  const weft_field field = {str("input_ids"), tensor};
  OK(weft_job_forward(job->job, fields_of(&field, 1), str("logits"), &logits, error));
  OK(weft_tensor_describe(logits, &info, error));
  const double* row = (const double*)info.data + (count - 1) * info.shape[2];
  int64_t best = 0;
  for (int64_t id = 1; id < info.shape[2]; ++id)
    if (row[id] > row[best]) best = id;
  weft_tensor_destroy(logits);
  weft_tensor_destroy(tensor);
  return best;
}

static void tokens_are_the_likeliest(void) {
  test_job job = make_job(&(test_options){0});
  const int64_t first[3] = {84, 104, 101}, second[1] = {32};
  const weft_ids given[2] = {ids_of(first, 3), ids_of(second, 1)};
  seen all = {.count = 0};
  const weft_str options = str("{\"greedy\": true, \"max_new_tokens\": 6}");
  OK(generate(job.job, given, 2, options, &all, on_token));
  EXPECT(all.sequences == 2 && all.count == 2 * NEW_TOKENS && all.stopped == 0);
  EXPECT(all.tokens == (place.rank == 0 ? 2 * NEW_TOKENS : 0));
  for (int prompt = 0; prompt < 2; ++prompt) {
    int64_t ids[3 + NEW_TOKENS];
    const int64_t length = prompt == 0 ? 3 : 1;
    memcpy(ids, prompt == 0 ? first : second, (size_t)length * sizeof(int64_t));
    for (int64_t i = 0; i < NEW_TOKENS; ++i) {
      ids[length + i] = likeliest(&job, ids, length + i);
      EXPECT(all.ids[prompt * NEW_TOKENS + i] == ids[length + i]);
      char name[40];
      snprintf(name, sizeof(name), "generated_%d_%d", prompt, (int)i);
      same_on_one_rank(name, (double)ids[length + i]);
    }
  }

  /* A sequence ends with a stop id, or when the caller says so. */
  char stop[80];
  snprintf(stop, sizeof(stop), "{\"greedy\": true, \"max_new_tokens\": 6, \"stop_ids\": [%d]}",
           (int)all.ids[2]);
  uint64_t until = 0;
  while (all.ids[until] != all.ids[2]) ++until;
  const int64_t expected[3] = {all.ids[0], all.ids[1], all.ids[2]};
  all = (seen){.count = 0};
  OK(generate(job.job, given, 1, str(stop), &all, on_token));
  EXPECT(all.count == until + 1 && all.stopped == 1 &&
         memcmp(all.ids, expected, (until + 1) * sizeof(int64_t)) == 0);
  all = (seen){.end_after = 2};
  OK(generate(job.job, given, 1, options, &all, on_token));
  EXPECT(all.count == 2 && all.stopped == 1);

  /* Samples differ, and are the same for the same seed. */
  const weft_str drawn =
      str("{\"max_new_tokens\": 6, \"num_samples\": 3, \"seed\": 9, \"temperature\": 1.5}");
  seen again = {.count = 0};
  all = (seen){.count = 0};
  OK(generate(job.job, given, 1, drawn, &all, on_token));
  OK(generate(job.job, given, 1, drawn, &again, NULL));
  EXPECT(all.sequences == 3 && all.count == 18 && memcmp(all.ids, again.ids, sizeof(all.ids)) == 0);
  EXPECT(memcmp(all.ids, all.ids + 6, 6 * sizeof(int64_t)) != 0);

  const weft_generation_arguments short_one = {.struct_size = 8};
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_generate(job.job, &short_one, error), "struct_size is 8");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_job_generate(job.job, NULL, error), "arguments is null");
  REFUSED(WEFT_INVALID_ARGUMENT, generate(NULL, given, 1, options, &all, on_token), "job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, generate(job.job, given, 1, str("{\"max_token\": 1}"), &all, on_token),
          "max_token", "max_new_tokens");
  REFUSED(WEFT_INVALID_ARGUMENT, generate(job.job, given, 1, str("{\"stop_ids\": [1.5]}"), &all, on_token),
          "stop_ids", "a list of ids");
  REFUSED(WEFT_INVALID_ARGUMENT, generate(job.job, given, 1, str("{\"top_p\": 2}"), &all, on_token), "top_p");
  const weft_ids none = {NULL, 1};
  REFUSED(WEFT_INVALID_ARGUMENT, generate(job.job, &none, 1, options, &all, on_token), "prompt 0");
  destroy_job(&job);
}

void test_generation(void) {
  text_becomes_ids_and_text_again();
  tokens_are_the_likeliest();
}
