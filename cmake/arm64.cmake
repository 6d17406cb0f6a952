# Toolchain file: cross-compiles for 64-bit Arm with Debian's compiler (g++-aarch64-linux-gnu), against the libraries in
# the folder that scripts/arm64-sysroot.sh fills. Programs that run during the build, such as protoc, are this machine's
# own. If qemu is installed, CTest runs the tests with it. The preset arm64 uses this file.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(MAXSIM_ARM64_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot CACHE PATH "Folder with Debian's arm64 libraries")
# For each check of the compiler, CMake makes a small project, which reads this file too. This line gives it the variable.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MAXSIM_ARM64_SYSROOT)
cmake_path(ABSOLUTE_PATH MAXSIM_ARM64_SYSROOT NORMALIZE OUTPUT_VARIABLE CMAKE_SYSROOT)
if(NOT EXISTS ${CMAKE_SYSROOT}/.complete)
  message(FATAL_ERROR "${CMAKE_SYSROOT} is not a complete folder of arm64 libraries: run scripts/arm64-sysroot.sh first")
endif()

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# pkg-config searches PKG_CONFIG_PATH first, which may name folders with this machine's own libraries.
set(ENV{PKG_CONFIG_PATH} "")
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

# With MAXSIM_CUDA=ON, nvcc compiles for Arm machines with NVIDIA GPUs, such as Grace Hopper. It needs the CUDA runtime
# library for arm64, which `scripts/fetch-cuda.sh --arm64` downloads.
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
set(CMAKE_CUDA_FLAGS_INIT -Xcompiler=--sysroot=${CMAKE_SYSROOT})

# With -cpu max, the emulated processor has every instruction set that qemu knows.
find_program(MAXSIM_QEMU_ARM64 NAMES qemu-aarch64-static qemu-aarch64)
mark_as_advanced(MAXSIM_QEMU_ARM64)
if(MAXSIM_QEMU_ARM64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${MAXSIM_QEMU_ARM64} -L ${CMAKE_SYSROOT} -cpu max)
endif()
