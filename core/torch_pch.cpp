#include "torch_pch.hpp"
