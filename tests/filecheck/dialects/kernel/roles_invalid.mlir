// RUN: ocannl-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: `kernel.roles`: a thread of a role has 24 to 240 registers, a multiple of 8, found 44
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 44 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: a thread of a role has 24 to 240 registers, a multiple of 8, found 248
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 248 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: the producer gives registers back, and consumers take some: each of 384 threads has 168
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 160 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: a block of 384 threads has 64512 registers, its roles have 66560
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 240 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: consumers are whole warpgroups of 128 threads, found 192
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 6, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: the consumers have one `kernel.await`, found 0
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: stages are counted in order: `kernel.await` of `step + 4*turn` is that of `step + 5*turn`
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 4*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: consumers wait for the stages that are filled, at the same points
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 4*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: a consumer reads stage `step + 5*turn - 1`, which it has released
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step - 1, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: a consumer reads stage `step + 5*turn + 1`, which it has not waited for
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step + 1, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: stages are released once, in order, after the wait for them: found stage 1 after 0 of 1
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step + 1
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: stages are released once, in order, after the wait for them: found stage 2 after 1 of 2
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + 2*step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: consumers wait for a stage 3 that is never filled: stage 0 has its arrays, and is not released before
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: `step + 6*turn` is no stage of the loop that waits for them
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 6*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: where threads have roles, copies go on meanwhile in `kernel.fill` only
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            kernel.wait 0
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: it stands in the consumer of `kernel.roles`
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.await 5*turn + step
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: a copy goes to another array than that of stage `step + 5*turn`
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step + 1, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: a stage is filled by bulk copies, and nothing else
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy async %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: all threads come to the same stage, but `part` depends on `part`
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release part
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: a product in flight still reads stage 0, which is released
loops.func @product {
  %x = assign.node "x" on_device : memref<384x576xbf16>
  %w = assign.node "w" on_device : memref<128x576xbf16>
  %y = assign.node "y" on_device : memref<384x128xf32>
  kernel.launch "y" grid (worker = 2) block (b_warp = 8, g = 8, t = 4) registers (tile = 8, half = 2, h = 2, c = 2, pair = 2) {
    %xs = kernel.shared memref<4x128x64xbf16, "swizzled ring">
    %ws = kernel.shared memref<4x64x64xbf16, "swizzled ring">
    kernel.roles producer registers 40 {
      kernel.for (turn = 3) {
        kernel.point (b_block = 3, o_block = 2) number 2*turn + worker {
          kernel.for (block = 9) {
            kernel.fill 9*turn + block {
              kernel.copy bulk %x[b + 128*b_block, k + 64*block] to %xs[9*turn + block, b, k] over (b = 128, k = 64) by 8
              kernel.copy bulk %w[o + 64*o_block, k + 64*block] to %ws[9*turn + block, o, k] over (o = 64, k = 64) by 8
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 3) {
        kernel.point (b_block = 3, o_block = 2) number 2*turn + worker {
          %sum = loops.reduce add (block = 9) : f32 {
            kernel.wait_products 1
            kernel.where -block + 8 < 8 {
              kernel.release 9*turn + block - 1
            }
            kernel.await 9*turn + block
            %part = loops.reduce add (step = 4) : f32 {
              %a = loops.load %xs[9*turn + block, 16*b_warp + g + 8*h, 8*half + pair + 16*step + 2*t]
              %b = loops.load %ws[9*turn + block, g + 8*tile, 8*half + pair + 16*step + 2*t]
              %p = kernel.mma async %a, %b rows (h) deep (half, pair) columns (c)
              loops.yield %p
            }
            loops.yield %part
          }
          kernel.release 9*turn + 7
          kernel.release 9*turn + 8
          loops.store %sum, %y[128*b_block + 16*b_warp + g + 8*h, 64*o_block + c + 2*t + 8*tile]
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: a product in flight still reads stage 0, which is released
loops.func @product {
  %x = assign.node "x" on_device : memref<384x576xbf16>
  %w = assign.node "w" on_device : memref<128x576xbf16>
  %y = assign.node "y" on_device : memref<384x128xf32>
  kernel.launch "y" grid (worker = 2) block (b_warp = 8, g = 8, t = 4) registers (tile = 8, half = 2, h = 2, c = 2, pair = 2) {
    %xs = kernel.shared memref<4x128x64xbf16, "swizzled ring">
    %ws = kernel.shared memref<4x64x64xbf16, "swizzled ring">
    kernel.roles producer registers 40 {
      kernel.for (turn = 3) {
        kernel.point (b_block = 3, o_block = 2) number 2*turn + worker {
          kernel.for (block = 9) {
            kernel.fill 9*turn + block {
              kernel.copy bulk %x[b + 128*b_block, k + 64*block] to %xs[9*turn + block, b, k] over (b = 128, k = 64) by 8
              kernel.copy bulk %w[o + 64*o_block, k + 64*block] to %ws[9*turn + block, o, k] over (o = 64, k = 64) by 8
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 3) {
        kernel.point (b_block = 3, o_block = 2) number 2*turn + worker {
          %sum = loops.reduce add (block = 9) : f32 {
            kernel.wait_products 2
            kernel.where -block + 8 < 7 {
              kernel.release 9*turn + block - 2
            }
            kernel.await 9*turn + block
            %part = loops.reduce add (step = 4) : f32 {
              %a = loops.load %xs[9*turn + block, 16*b_warp + g + 8*h, 8*half + pair + 16*step + 2*t]
              %b = loops.load %ws[9*turn + block, g + 8*tile, 8*half + pair + 16*step + 2*t]
              %p = kernel.mma async %a, %b rows (h) deep (half, pair) columns (c)
              loops.yield %p
            }
            loops.yield %part
          }
          kernel.release 9*turn + 7
          kernel.release 9*turn + 8
          loops.store %sum, %y[128*b_block + 16*b_warp + g + 8*h, 64*o_block + c + 2*t + 8*tile]
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: consumers release 8 of 9 stages
loops.func @product {
  %x = assign.node "x" on_device : memref<384x576xbf16>
  %w = assign.node "w" on_device : memref<128x576xbf16>
  %y = assign.node "y" on_device : memref<384x128xf32>
  kernel.launch "y" grid (worker = 2) block (b_warp = 8, g = 8, t = 4) registers (tile = 8, half = 2, h = 2, c = 2, pair = 2) {
    %xs = kernel.shared memref<4x128x64xbf16, "swizzled ring">
    %ws = kernel.shared memref<4x64x64xbf16, "swizzled ring">
    kernel.roles producer registers 40 {
      kernel.for (turn = 3) {
        kernel.point (b_block = 3, o_block = 2) number 2*turn + worker {
          kernel.for (block = 9) {
            kernel.fill 9*turn + block {
              kernel.copy bulk %x[b + 128*b_block, k + 64*block] to %xs[9*turn + block, b, k] over (b = 128, k = 64) by 8
              kernel.copy bulk %w[o + 64*o_block, k + 64*block] to %ws[9*turn + block, o, k] over (o = 64, k = 64) by 8
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 3) {
        kernel.point (b_block = 3, o_block = 2) number 2*turn + worker {
          %sum = loops.reduce add (block = 9) : f32 {
            kernel.wait_products 1
            kernel.where -block + 8 < 7 {
              kernel.release 9*turn + block - 2
            }
            kernel.await 9*turn + block
            %part = loops.reduce add (step = 4) : f32 {
              %a = loops.load %xs[9*turn + block, 16*b_warp + g + 8*h, 8*half + pair + 16*step + 2*t]
              %b = loops.load %ws[9*turn + block, g + 8*tile, 8*half + pair + 16*step + 2*t]
              %p = kernel.mma async %a, %b rows (h) deep (half, pair) columns (c)
              loops.yield %p
            }
            loops.yield %part
          }
          kernel.release 9*turn + 7
          loops.store %sum, %y[128*b_block + 16*b_warp + g + 8*h, 64*o_block + c + 2*t + 8*tile]
        }
      }
    }
  }
}

// -----

// CHECK: `kernel.roles`: the producer fills stages, and does nothing else, found `kernel.where`
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.where worker < 2 {
          }
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}
