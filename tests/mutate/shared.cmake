# Each layer as a shared library, so that a changed one is linked once and not into each test program. Read by CMake
# right after project() (CMAKE_PROJECT_INCLUDE).
function(add_library name)
    list(TRANSFORM ARGN REPLACE "^STATIC$" "SHARED")
    _add_library(${name} ${ARGN})
endfunction()
