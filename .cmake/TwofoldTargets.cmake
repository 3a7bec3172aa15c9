# tf_library(<name> SOURCES <file>... LINK <target>...): a static library of one folder. Without sources it is an
# INTERFACE library, so that what links to it need not care.
function(tf_library name)
    cmake_parse_arguments(LIB "" "" "SOURCES;LINK" ${ARGN})
    if(LIB_SOURCES)
        add_library(${name} STATIC ${LIB_SOURCES})
        target_link_libraries(${name} PRIVATE tf_flags)
        set(scope PUBLIC)
    else()
        add_library(${name} INTERFACE)
        set(scope INTERFACE)
    endif()
    target_include_directories(${name} ${scope} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
    target_link_libraries(${name} ${scope} ${LIB_LINK})
endfunction()

# tf_program(<name> SOURCES <file>... LINK <target>...): an executable.
function(tf_program name)
    cmake_parse_arguments(PROGRAM "" "" "SOURCES;LINK" ${ARGN})
    add_executable(${name} ${PROGRAM_SOURCES})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
    target_link_libraries(${name} PRIVATE tf_flags ${PROGRAM_LINK})
endfunction()
