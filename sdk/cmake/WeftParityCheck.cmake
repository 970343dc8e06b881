# cmake -DWEFT=... -DMODEL=... (see weft_add_parity_test) -P: trains on one rank and on several, and compares what they save.
file(REMOVE_RECURSE ${OUTPUT})
file(MAKE_DIRECTORY ${OUTPUT})

function(weft_train name)
  set(command ${WEFT} train --model ${MODEL} --data ${DATA} --precision fp64 --optimizer sgd --lr 0.5 --steps 3 --batch-size 12
    --sequence-length 16 --accumulate 2 --output ${OUTPUT}/${name} ${ARGN})
  execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    list(JOIN command " " command)
    message(FATAL_ERROR "status ${status} of\n${command}\n${text}")
  endif()
endfunction()

string(REPLACE "\n" ";" one_rank "${ONE_RANK}")
string(REPLACE "\n" ";" arguments "${ARGUMENTS}")
weft_train(one_rank -n 1 ${one_rank})
weft_train(ranks -n ${RANKS} ${arguments})
execute_process(COMMAND ${COMPARE} ${OUTPUT}/one_rank/${SAVED} ${OUTPUT}/ranks/${SAVED} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${OUTPUT})
