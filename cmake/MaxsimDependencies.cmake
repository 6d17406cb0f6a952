# Libraries from the distribution's packages (deploy/apt-packages.txt). Debian 12's gRPC, protobuf and abseil come with
# pkg-config files everywhere and with CMake configurations in part, so pkg-config is asked for those.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
pkg_check_modules(GRPCPP REQUIRED IMPORTED_TARGET grpc++)
# What gRPC encrypts with, asked whether certificates are in order.
find_package(OpenSSL REQUIRED)
find_library(GRPCPP_REFLECTION grpc++_reflection REQUIRED)
find_package(absl REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
# A client of the HTTP port. The distributions compile the library, with OpenSSL, zlib and brotli inside; its pkg-config
# flags are part of its ABI.
pkg_check_modules(CPP_HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

include(MaxsimSanitizers)
