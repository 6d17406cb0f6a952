// Makes calls of the Admin service.
#pragma once

#include <string>

#include "grpcpp/create_channel.h"
#include "tests/service/server_fixture.h"
#include "tests/support/fake_backend.h"

namespace maxsim::test {

inline grpc::Status Load(RunningServer& server, const std::string& name, const std::string& path,
                         const std::string& residency = "") {
  grpc::ClientContext context;
  v1::LoadCollectionRequest request;
  request.set_name(name);
  request.set_path(path);
  request.set_residency(residency);
  v1::LoadCollectionResponse response;
  return server.admin().LoadCollection(&context, request, &response);
}

inline grpc::Status Reload(RunningServer& server, const std::string& name, v1::ReloadCollectionResponse* response) {
  grpc::ClientContext context;
  v1::ReloadCollectionRequest request;
  request.set_name(name);
  return server.admin().ReloadCollection(&context, request, response);
}

inline grpc::Status Unload(RunningServer& server, const std::string& name) {
  grpc::ClientContext context;
  v1::UnloadCollectionRequest request;
  request.set_name(name);
  v1::UnloadCollectionResponse response;
  return server.admin().UnloadCollection(&context, request, &response);
}

}  // namespace maxsim::test
