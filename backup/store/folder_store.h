// A backup in a folder, for example on a network file system.
#pragma once

#include <memory>
#include <string>

#include "backup/store/object_store.h"

namespace maxsim::backup {

// Returns the store of file:///FOLDER. `folder` is an absolute path. The folder need not exist: the first object
// creates it. Objects are on disk when Put and Finish return.
std::unique_ptr<ObjectStore> MakeFolderStore(std::string folder);

}  // namespace maxsim::backup
