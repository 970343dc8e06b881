# cmake -DWEFT=... -DFOLDER=... -DOUTPUT=... -P: trains with the hook on two ranks, and counts the steps.
execute_process(COMMAND ${WEFT} train -n 2 --model ${FOLDER}/config.json --data ${FOLDER}/README.md --batch-size 4
  --sequence-length 16 --steps 9 --metrics ${OUTPUT}/metrics.jsonl --hook template_name
  --hook-option template_name.goal=100 --hook-option template_name.steps=4 COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS ${OUTPUT}/metrics.jsonl steps REGEX "\"loss\"")
list(LENGTH steps count)
if(NOT count EQUAL 4)
  message(SEND_ERROR "the training has ${count} steps, must have 4")
endif()
