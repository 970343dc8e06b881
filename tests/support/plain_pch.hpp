// What is precompiled for the tests without libtorch.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../core/base/pch.hpp"
