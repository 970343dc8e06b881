/* weft/runtime.h: errors, the log, and plugins by name. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/host.h>

#include "test.h"

static int is(weft_str text, const char* expected) {
  return text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

static void errors_keep_the_last_failure(void) {
  weft_error* own = weft_error_create();
  weft_runtime* made = NULL;
  REQUIRE(own != NULL);
  EXPECT(weft_error_status(own) == WEFT_OK);
  EXPECT(weft_error_text(own).size == 0);
  weft_error_set(own, WEFT_DATA_LOSS, WEFT_STR("the first"));
  weft_error_set(own, WEFT_ABORTED, WEFT_STR("the second"));
  EXPECT(weft_error_status(own) == WEFT_ABORTED);
  EXPECT(is(weft_error_text(own), "the second"));
  /* A success leaves it. */
  EXPECT(weft_runtime_create(str(""), &made, own) == WEFT_OK);
  EXPECT(is(weft_error_text(own), "the second"));
  weft_runtime_destroy(made);
  weft_error_set(own, WEFT_ABORTED, (weft_str){NULL, 7});
  EXPECT(is(weft_error_text(own), "(a text without data)"));
  weft_error_set(own, WEFT_NOT_FOUND, (weft_str){NULL, 0});
  EXPECT(weft_error_status(own) == WEFT_NOT_FOUND);
  EXPECT(weft_error_text(own).size == 0);
  weft_error_destroy(own);

  /* Nobody has to ask for the text. */
  weft_error_set(NULL, WEFT_ABORTED, WEFT_STR("unheard"));
  EXPECT(weft_error_status(NULL) == WEFT_OK);
  EXPECT(weft_error_text(NULL).size == 0);
  EXPECT(weft_runtime_create(str("{\"wrong\": 1}"), &made, NULL) == WEFT_INVALID_ARGUMENT);
  weft_error_destroy(NULL);
}

/* What goes to the standard error while `level` is logged. */
static void logged(uint32_t level, weft_str from, weft_str line, char* text, size_t size) {
  char name[32];
  snprintf(name, sizeof(name), "log-%d-%d", place.ranks, place.rank);
  fflush(stderr);
  const int before = dup(STDERR_FILENO), file = open(in_folder(name), O_RDWR | O_CREAT | O_TRUNC, 0600);
  REQUIRE(before >= 0 && file >= 0);
  dup2(file, STDERR_FILENO);
  weft_log(level, from, line);
  dup2(before, STDERR_FILENO);
  const ssize_t count = pread(file, text, size - 1, 0);
  text[count > 0 ? count : 0] = '\0';
  close(before);
  close(file);
}

static void the_log_has_one_line_for_each_call(void) {
  char text[256];
  const weft_str line = WEFT_STR("it happened"), no_data = {NULL, 7};
  logged(WEFT_LOG_ERROR, WEFT_STR("a_test"), line, text, sizeof(text));
  EXPECT(strstr(text, "error: a_test: it happened\n") != NULL);
  EXPECT((strstr(text, "[rank ") != NULL) == (place.ranks > 1));
  logged(WEFT_LOG_INFO, WEFT_STR(""), line, text, sizeof(text));
  EXPECT(strstr(text, "it happened\n") != NULL && strstr(text, ":") == NULL);
  logged(WEFT_LOG_DEBUG, WEFT_STR(""), line, text, sizeof(text));
  EXPECT(text[0] == '\0');
  logged(WEFT_LOG_ERROR, no_data, line, text, sizeof(text));
  EXPECT(strstr(text, "error: (a text without data): it happened\n") != NULL);
  logged(WEFT_LOG_ERROR, WEFT_STR("a_test"), no_data, text, sizeof(text));
  EXPECT(strstr(text, "error: a_test: (a text without data)\n") != NULL);
}

static void runtimes_refuse_wrong_options(void) {
  weft_runtime* const untouched = (weft_runtime*)&place;
  weft_runtime* made = untouched;
  REFUSED(WEFT_INVALID_ARGUMENT, weft_runtime_create(str(""), NULL, error), "weft_runtime_create",
          "own is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_runtime_create(str("{\"safe_mod\": true}"), &made, error), "safe_mod",
          "did you mean \"safe_mode\"?");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_runtime_create(str("{\"safe_mode\": 1}"), &made, error), "safe_mode",
          "true or false");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_runtime_create(str("[]"), &made, error), "must be an object");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_runtime_create(str("{"), &made, error), "weft_runtime_create");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_runtime_create((weft_str){NULL, 7}, &made, error),
          "weft_runtime_create", "7 bytes", "no data");
  EXPECT(made == untouched);
  weft_runtime_destroy(NULL);
}

static void plugins_load_by_name(void) {
  weft_loaded loaded = {.struct_size = sizeof(loaded)}, again = {.struct_size = sizeof(again)};
  OK(weft_runtime_load(runtime, WEFT_STR("strategy"), WEFT_STR("torch_ddp"), str(""), &loaded, error));
  EXPECT(is(loaded.id, "torch_ddp"));
  EXPECT(is(loaded.kind, "strategy"));
  EXPECT(loaded.tier == WEFT_TIER_TORCH);
  EXPECT(loaded.digest.size == 64);
  EXPECT(loaded.plugin != NULL);
  EXPECT(strstr(loaded.manifest.data, "bucket_cap_mb") != NULL);
  OK(weft_runtime_load(runtime, WEFT_STR("strategy"), WEFT_STR("torch_ddp"), loaded.version, &again, error));
  EXPECT(again.plugin == loaded.plugin);
  OK(weft_runtime_load(runtime, WEFT_STR("strategy"), str(""), str(""), &again, error));
  EXPECT(is(again.id, "torch_ddp")); /* its manifest says that it is the default */

  /* A program that knows less of the struct. */
  weft_loaded older;
  memset(&older, 0x55, sizeof(older));
  older.struct_size = offsetof(weft_loaded, kind);
  OK(weft_runtime_load(runtime, WEFT_STR("strategy"), WEFT_STR("torch_ddp"), str(""), &older, error));
  EXPECT(is(older.id, "torch_ddp"));
  EXPECT(older.tier == 0x55555555u);

  REFUSED(WEFT_NOT_FOUND,
          weft_runtime_load(runtime, WEFT_STR("strategy"), WEFT_STR("torch_dpp"), str(""), &loaded, error),
          "torch_dpp", "did you mean \"torch_ddp\"?");
  REFUSED(WEFT_NOT_FOUND,
          weft_runtime_load(runtime, WEFT_STR("strategy"), WEFT_STR("torch_ddp"), WEFT_STR("99.0.0"), &loaded,
                            error),
          "torch_ddp", "99.0.0");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_runtime_load(runtime, WEFT_STR("strategie"), WEFT_STR("torch_ddp"), str(""), &loaded, error),
          "strategie");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_runtime_load(NULL, WEFT_STR("strategy"), WEFT_STR("torch_ddp"), str(""), &loaded, error),
          "weft_runtime_load: runtime is null");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_runtime_load(runtime, WEFT_STR("strategy"), WEFT_STR("torch_ddp"), str(""), NULL, error),
          "weft_runtime_load: out is null");
  loaded.struct_size = 0;
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_runtime_load(runtime, WEFT_STR("strategy"), WEFT_STR("torch_ddp"), str(""), &loaded, error),
          "struct_size is 0");
}

static void the_list_is_json_of_all_plugins(void) {
  weft_str list = {NULL, 0};
  OK(weft_runtime_list(runtime, &list, error));
  EXPECT(list.size > 2 && list.data[0] == '{' && list.data[list.size - 1] == '}');
  EXPECT(strstr(list.data, "\"id\":\"torch_ddp\"") != NULL);
  EXPECT(strstr(list.data, "\"searched\":[") != NULL);
  weft_text_destroy(list);
  weft_text_destroy((weft_str){NULL, 0});
  REFUSED(WEFT_INVALID_ARGUMENT, weft_runtime_list(NULL, &list, error), "weft_runtime_list: runtime is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_runtime_list(runtime, NULL, error), "weft_runtime_list: own is null");
}

void test_runtime(void) {
  EXPECT(is(weft_version(), WEFT_EXPECTED_VERSION));
  errors_keep_the_last_failure();
  the_log_has_one_line_for_each_call();
  runtimes_refuse_wrong_options();
  plugins_load_by_name();
  the_list_is_json_of_all_plugins();
}
