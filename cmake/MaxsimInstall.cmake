# `make install` installs the programs, an example of a configuration, and the files for systemd below the prefix. It
# only needs `make programs` to have been run. The programs need the distribution's shared libraries. The C++ client
# library is a component of its own (client/CMakeLists.txt).
include(GNUInstallDirs)
install(TARGETS maxsimd maxsimctl maxsim-shard maxsim-loadtest RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES config/maxsimd.yaml DESTINATION ${CMAKE_INSTALL_DATADIR}/maxsim)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/maxsim)
install(FILES deploy/systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME maxsimd.conf)
install(FILES deploy/systemd/maxsimd@router.service.d/router.conf DESTINATION lib/systemd/system/maxsimd@router.service.d)
install(FILES deploy/systemd/cluster/group.yaml deploy/systemd/cluster/router.yaml
        DESTINATION ${CMAKE_INSTALL_DATADIR}/maxsim/cluster)
# The units contain the prefix. They are written at install time, because `cmake --install --prefix` may still change
# it.
foreach(name IN ITEMS maxsimd.service maxsimd@.service)
  install(CODE "
    file(READ \"${PROJECT_SOURCE_DIR}/deploy/systemd/${name}\" unit)
    string(REPLACE /opt/maxsim/README.md \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/maxsim/README.md\"
           unit \"\${unit}\")
    string(REPLACE /opt/maxsim/bin \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\" unit \"\${unit}\")
    string(REPLACE deploy/systemd/cluster \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/maxsim/cluster\"
           unit \"\${unit}\")
    string(REPLACE /opt/maxsim \"\${CMAKE_INSTALL_PREFIX}\" unit \"\${unit}\")
    set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/${name}\")
    message(STATUS \"Installing: \${file}\")
    file(WRITE \"\${file}\" \"\${unit}\")
    file(CHMOD \"\${file}\" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  ")
endforeach()
