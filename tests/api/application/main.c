/* The C API, from C.
 *   application_c FOLDER CONFIG TEXT
 *   weft run -n 2 application_c FOLDER CONFIG TEXT
 * FOLDER keeps the numbers of the run on one rank, which those on more ranks must be. */
#include <stdio.h>
#include <stdlib.h>

#include "test.h"

static int number(const char* variable, int otherwise) {
  const char* text = getenv(variable);
  return text != NULL ? atoi(text) : otherwise;
}

int main(int argc, char** argv) {
  const struct {
    const char* name;
    void (*run)(void);
  } tests[] = {{"runtime", test_runtime},   {"objects", test_objects},        {"data", test_data},
               {"training", test_training}, {"criterion", test_criterion},    {"generation", test_generation},
               {"trainer", test_trainer},   {"checkpoints", test_checkpoints}};
  if (argc != 4) {
    fprintf(stderr, "usage: application_c FOLDER CONFIG TEXT\n");
    return 2;
  }
  place = (test_place){argv[1], argv[2], argv[3], number("RANK", 0), number("WORLD_SIZE", 1)};
  error = weft_error_create();
  REQUIRE(error != NULL);
  OK(weft_runtime_create(str(""), &runtime, error));
  for (size_t t = 0; t < sizeof(tests) / sizeof(tests[0]); ++t) {
    const int before = num_failures();
    tests[t].run();
    if (place.rank == 0) printf("%s: %s\n", tests[t].name, num_failures() == before ? "passed" : "FAILED");
  }
  weft_runtime_destroy(runtime);
  weft_error_destroy(error);
  return num_failures() == 0 ? 0 : 1;
}
