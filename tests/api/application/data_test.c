/* Which data weft_data_open reads, by what is at the path and in the model's folder. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "test.h"

static void copy_file(const char* from, const char* to) {
  char text[4096] = {0};
  FILE* file = fopen(from, "r");
  REQUIRE(file != NULL);
  REQUIRE(fread(text, 1, sizeof(text) - 1, file) > 0);
  REQUIRE(fclose(file) == 0);
  write_file(to, text);
}

/* How many steps of one sample an epoch has. */
static int steps_of_an_epoch(const char* data_options) {
  const test_options options = {.optimizer = "sgd", .hyper = "{\"lr\": 0.1}", .data_options = data_options};
  test_job job = make_job(&options);
  weft_step_result step = {.struct_size = sizeof(step)};
  int steps = 0;
  while (weft_job_next(job.job, &step, error) == WEFT_OK) REQUIRE(++steps < 100);
  destroy_job(&job);
  return steps;
}

/* 64 letters are 32 tokens for a tokenizer that joins two of them. */
static void text_is_tokenized_where_the_model_has_a_tokenizer(void) {
  char text[65];
  const test_place before = place;
  mkdir(in_folder("tokenized"), 0755);
  copy_file(place.config, in_folder("tokenized/config.json"));
  memset(text, 'a', 64);
  text[64] = '\0';
  write_file(in_folder("letters.txt"), text);
  place.config = in_folder("tokenized");
  place.text = in_folder("letters.txt");
  EXPECT(steps_of_an_epoch("{\"batch_size\": 1, \"sequence_length\": 4}") == 16); /* bytes */
  write_file(in_folder("tokenized/tokenizer.json"),
             "{\"version\": \"1.0\", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"aa\": 1}, "
             "\"merges\": [\"a a\"]}}");
  EXPECT(steps_of_an_epoch("{\"batch_size\": 1, \"sequence_length\": 4}") == 8);
  EXPECT(steps_of_an_epoch("{\"batch_size\": 1, \"sequence_length\": 4, \"bytes\": true}") == 16);
  EXPECT(steps_of_an_epoch("{\"batch_size\": 1, \"sequence_length\": 4, \"packing\": \"stream\"}") == 8);
  place = before;
}

static void lines_of_json_are_documents(void) {
  const test_place before = place;
  write_file(in_folder("lines.jsonl"), "{\"text\": \"aaaaaaaa\"}\n{\"text\": \"aaaaaaaa\"}\n{\"text\": 3}\n");
  place.config = in_folder("tokenized");
  place.text = in_folder("lines.jsonl");
  EXPECT(steps_of_an_epoch("{\"batch_size\": 1, \"sequence_length\": 4, \"skip_broken_lines\": true}") == 2);
  place = before;
}

/* With the classes that config.json names. */
static void rows_have_the_labels_of_the_model(void) {
  const test_place before = place;
  weft_data* data = NULL;
  weft_model* model = NULL;
  mkdir(in_folder("classes"), 0755);
  copy_file(in_folder("tokenized/tokenizer.json"), in_folder("classes/tokenizer.json"));
  write_file(in_folder("classes/config.json"),
             "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2ForSequenceClassification\"], "
             "\"vocab_size\": 8, \"n_positions\": 16, \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 2, "
             "\"pad_token_id\": 0, \"id2label\": {\"0\": \"x\", \"1\": \"y\"}}");
  write_file(in_folder("rows.csv"), "kind,text\nx,aaaa\ny,\"aa\"\nx,a\n");
  place.config = in_folder("classes");
  place.text = in_folder("rows.csv");
  OK(weft_model_open(runtime, str(place.config), str(""), &model, error));
  OK(weft_data_open(runtime, model, str(place.text), str("{\"batch_size\": 1, \"label_column\": \"kind\"}"),
                    &data, error));
  weft_data_destroy(data);
  write_file(in_folder("other.csv"), "kind,text\nx,aaaa\nz,aa\n");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, str(in_folder("other.csv")), str("{\"label_column\": \"kind\"}"),
                         &data, error),
          "other.csv:3", "\"z\"");
  weft_model_destroy(model);
  place = before;
}

static void settings_without_effect_are_refused(void) {
  weft_data* data = NULL;
  weft_model* model = NULL;
  OK(weft_model_open(runtime, str(in_folder("tokenized")), str(""), &model, error));
  const weft_str text = str(in_folder("letters.txt")), tokens = str(in_folder("letters.bin"));
  write_file(in_folder("letters.bin"), "aaaaaaaa");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_data_open(runtime, model, text, str("{\"flip\": true}"), &data, error),
          "flip", "images");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_data_open(runtime, model, text, str("{\"overlap\": 3}"), &data, error),
          "overlap", "questions");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_data_open(runtime, model, text, str("{\"held_out\": 2}"), &data, error),
          "held_out is 2");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"packing\": \"x\"}"), &data, error), "packing",
          "stream");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"bytes\": true, \"tokenizer\": \"x\"}"), &data, error),
          "tokenizer", "bytes");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, tokens, str("{\"bytes\": true}"), &data, error), "bytes",
          "letters.bin");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, tokens, str("{\"packing\": \"none\"}"), &data, error), "packing",
          "letters.bin");
  REFUSED(WEFT_NOT_FOUND,
          weft_data_open(runtime, model, text, str("{\"tokenizer\": \"nowhere\"}"), &data, error), "nowhere");
  REFUSED(WEFT_NOT_FOUND,
          weft_data_open(runtime, model, text, str("{\"dataset\": \"nobody\"}"), &data, error),
          "no library has the data set", "nobody");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"dataset_options\": [\"ids=8\"]}"), &data, error),
          "dataset");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"dataset\": \"nobody\", \"dataset_options\": [8]}"),
                         &data, error),
          "dataset_options", "list of texts");
  EXPECT(data == NULL);
  weft_model_destroy(model);
}

void test_data(void) {
  if (place.ranks != 1) return; /* ranks share the folder */
  text_is_tokenized_where_the_model_has_a_tokenizer();
  lines_of_json_are_documents();
  rows_have_the_labels_of_the_model();
  settings_without_effect_are_refused();
}
