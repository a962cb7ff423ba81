# find_package(verbatim): the targets verbatim::verbatim (shared) and verbatim::static. This file lies in
# <prefix>/<libdir>/cmake/verbatim; the installed tree may be moved.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(PkgConfig)
find_dependency(fmt)
pkg_check_modules(verbatim_private REQUIRED IMPORTED_TARGET libibverbs libmlx5 librdmacm libsodium tomlplusplus libxxhash)

get_filename_component(_verbatim_libraries "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(_verbatim_prefix "${_verbatim_libraries}")
while(NOT EXISTS "${_verbatim_prefix}/include/verbatim/objects.hpp" AND NOT _verbatim_prefix STREQUAL "/")
  get_filename_component(_verbatim_prefix "${_verbatim_prefix}" DIRECTORY)
endwhile()
foreach(kind IN ITEMS verbatim static)
  if(NOT TARGET verbatim::${kind})
    if(kind STREQUAL "static")
      add_library(verbatim::static STATIC IMPORTED)
      set_target_properties(verbatim::static PROPERTIES
        IMPORTED_LOCATION "${_verbatim_libraries}/libverbatim.a"
        INTERFACE_LINK_LIBRARIES "fmt::fmt;PkgConfig::verbatim_private;Threads::Threads")
    else()
      add_library(verbatim::verbatim SHARED IMPORTED)
      set_target_properties(verbatim::verbatim PROPERTIES
        IMPORTED_LOCATION "${_verbatim_libraries}/libverbatim.so"
        INTERFACE_LINK_LIBRARIES "fmt::fmt;PkgConfig::verbatim_private")
    endif()
    set_target_properties(verbatim::${kind} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${_verbatim_prefix}/include"
      INTERFACE_COMPILE_FEATURES cxx_std_20)
  endif()
endforeach()
