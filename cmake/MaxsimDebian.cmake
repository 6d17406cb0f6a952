# `make deb` makes a Debian package of the four programs with CPack. scripts/packages/make-deb.sh puts all other files
# into debian/root in the build folder, and then calls CPack. Shared libraries come from packages of the distribution
# on which the build runs (dpkg-shlibdeps finds these), so that the distribution's security updates apply to them. So
# the package works only on that release of the distribution, and its name says which.

# The package's maintainer is the person who builds it, as named in the variables of Debian's own tools.
set(CPACK_PACKAGE_CONTACT "maxsimd authors <noreply@example.com>")
if(DEFINED ENV{DEBFULLNAME} AND DEFINED ENV{DEBEMAIL})
  set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(root ${PROJECT_BINARY_DIR}/debian/root)
# CPack packs only this component, and `make install` leaves it out.
install(TARGETS maxsimd maxsimctl maxsim-shard maxsim-loadtest RUNTIME DESTINATION usr/bin COMPONENT debian EXCLUDE_FROM_ALL)
install(DIRECTORY ${root}/ DESTINATION . USE_SOURCE_PERMISSIONS COMPONENT debian EXCLUDE_FROM_ALL)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};maxsim;debian;/")
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)

# The release of the package is "1~debian12", for example. At an upgrade of the distribution, the package for the next
# release then counts as newer and replaces this one.
cmake_host_system_information(RESULT distribution QUERY DISTRIB_ID)
cmake_host_system_information(RESULT release QUERY DISTRIB_VERSION_ID)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~${distribution}${release})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_NAME maxsim-server)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# CPack indents the lines below, and puts a dot into the empty line.
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "exact MaxSim rerank service for late-interaction retrieval
maxsimd scores candidate documents against queries by exact MaxSim, as ColBERT
and other late-interaction models need it, over gRPC and HTTP, on the CPU or on
NVIDIA GPUs. The package has the server, its command line maxsimctl,
maxsim-shard, which builds collections of token vectors, and maxsim-loadtest.

A GPU needs a driver for CUDA 13 (580 or newer), and nothing else of CUDA.")
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS libcuda1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(CMAKE_CROSSCOMPILING)
  # CPack would ask for this machine's packages. make-deb.sh finds the dependencies.
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/deploy/debian/postinst ${PROJECT_SOURCE_DIR}/deploy/debian/prerm
    ${PROJECT_SOURCE_DIR}/deploy/debian/postrm ${PROJECT_BINARY_DIR}/debian/conffiles)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
