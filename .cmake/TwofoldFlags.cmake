# tf_flags: the warning and sanitizer flags that every target of the project is compiled with.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)

add_library(tf_flags INTERFACE)
target_compile_definitions(tf_flags INTERFACE _GNU_SOURCE)

foreach(flag -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
             -Wundef -Wvla -Wformat=2 -Wcast-qual -Wcast-align -Wnull-dereference -Wimplicit-fallthrough
             -fvisibility=hidden)
    string(MAKE_C_IDENTIFIER "TF_HAS${flag}" known)
    set(CMAKE_REQUIRED_FLAGS -Werror)
    check_c_compiler_flag(${flag} ${known})
    unset(CMAKE_REQUIRED_FLAGS)
    if(${known})
        target_compile_options(tf_flags INTERFACE ${flag})
    endif()
endforeach()
if(TF_WERROR)
    target_compile_options(tf_flags INTERFACE -Werror)
endif()

if(TF_SANITIZE)
    set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    set(CMAKE_REQUIRED_FLAGS "-fsanitize=address,undefined")
    check_c_source_compiles("int main(void) { return 0; }" TF_HAS_SANITIZERS)
    unset(CMAKE_REQUIRED_FLAGS)
    if(NOT TF_HAS_SANITIZERS)
        message(FATAL_ERROR "TF_SANITIZE: ${CMAKE_C_COMPILER} cannot link the sanitizers (for clang on Debian 12: "
                            "apt-get install libclang-rt-14-dev)")
    endif()
    # Less optimisation for readable reports; gcc's flow warnings see null where only its own checks look (gcc manual,
    # -fsanitize), so they are left to the release build.
    target_compile_options(tf_flags INTERFACE ${sanitize} -g -O1)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        target_compile_options(tf_flags INTERFACE -Wno-null-dereference -Wno-maybe-uninitialized)
    endif()
    target_link_options(tf_flags INTERFACE ${sanitize})
else()
    # No _FORTIFY_SOURCE and no stack protector here: packages bring them (dpkg-buildflags), and the object files of a
    # plain build show what the pure modules call.
    target_link_options(tf_flags INTERFACE -Wl,-z,relro,-z,now)
endif()
