// What most test programs read; cmake/MaxsimPrecompiled.cmake.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled/library.h"
