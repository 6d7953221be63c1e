// RUN: ocannl-opt %s -t llvm | filecheck %s

// Rows of 256 elements are fetched by 32 tiles: two of them, which would fetch the same 64 bytes, share the points of the
// sum among them. A block has 64 of these, so that the next one is 65536 bytes further on. Of 64 elements all 32 tiles share
// four lines, so that each fetches every eighth point.
// CHECK-LABEL: define internal void @"blocks.sums"
// CHECK:         [[TILE:%.*]] = udiv i64 {{.*}}, 8
// CHECK-NEXT:    [[PHASE:%.*]] = urem i64 [[TILE]], 2
// CHECK-NEXT:    [[PIECE:%.*]] = udiv i64 [[TILE]], 2
// CHECK-NEXT:    urem i64 [[TILE]], 8
// CHECK-NEXT:    udiv i64 [[TILE]], 8
// The branches come before the loads of their step, so that no scalar of a row waits for a register behind them.
// CHECK-NOT:     = load
// CHECK:         urem i64 [[K:%.*]], 2
// CHECK:         [[AHEAD:%.*]] = getelementptr i8, ptr {{.*}}, i64 65536
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[AHEAD]], i32 0, i32 2, i32 1)
// CHECK:         urem i64 [[K]], 8
// CHECK:         [[AHEAD:%.*]] = getelementptr i8, ptr {{.*}}, i64 16384
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[AHEAD]], i32 0, i32 2, i32 1)
// The step has four points.
// CHECK:         urem i64 [[K]], 2
// CHECK:         [[AHEAD:%.*]] = getelementptr i8, ptr {{.*}}, i64 67584
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[AHEAD]], i32 0, i32 2, i32 1)
// CHECK-NOT:     i32 2, i32 1)
// CHECK:       }
loops.func @blocks attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<32768x64xf32>
  %g = assign.node "g" constant : memref<32768x256xf32>
  %y = assign.node "y" on_device : memref<256x64xf32>
  loops.group "sums" (k_block = 512) {
    loops.nest "sums" (i = 256, j = 64) schedule <order = (j, i), rows = i : 8, lanes = j : 64> {
      %s = loops.reduce add (k = 64) : f32 {
        %a = loops.load %g[k + 64*k_block, i]
        %c = loops.load %x[k + 64*k_block, j]
        %p = arith.mulf %a, %c : f32
        loops.yield %p
      }
      %o = loops.load %y[i, j]
      %t = arith.addf %o, %s : f32
      loops.store %t, %y[i, j]
    }
  }
}

// So are the panels of a group, over two loops of the sum: of 16 neighbours, from which those of the next panel follow at
// 64 bytes, each of the four tiles fetches every fourth point.
// CHECK-LABEL: define internal void @"panels.sums"
// CHECK:         urem i64 [[TILE:%.*]], 4
// CHECK-NEXT:    udiv i64 [[TILE]], 4
// CHECK:         [[AHEAD:%.*]] = getelementptr i8, ptr {{.*}}, i64 64
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[AHEAD]], i32 0, i32 2, i32 1)
// CHECK:       }
loops.func @panels attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<64x32x32xf32>
  %g = assign.node "g" constant : memref<32x64x1024xf32>
  %y = assign.node "y" on_device : memref<1024x32xf32>
  loops.group "sums" (i_panel = 64) {
    loops.nest "sums" (i = 16, j = 32) schedule <order = (i, j), rows = j : 8, lanes = i : 16> {
      %s = loops.reduce add (t = 64, b = 32) : f32 {
        %a = loops.load %g[b, t, i + 16*i_panel]
        %c = loops.load %x[t, b, j]
        %p = arith.mulf %a, %c : f32
        loops.yield %p
      }
      loops.store %s, %y[i + 16*i_panel, j]
    }
  }
}

// Eight rows of a matrix that a vector is multiplied with are streams, of which the hardware runs ahead.
// CHECK-LABEL: define internal void @"rows.sums"
// CHECK-NOT:     prefetch
// CHECK:       }
loops.func @rows attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<768xf32>
  %w = assign.node "w" constant : memref<768x3072xf32>
  %y = assign.node "y" on_device : memref<3072xf32>
  loops.group "sums" (k_block = 96) {
    loops.nest "sums" (j = 3072) schedule <order = (j), lanes = j : 64> {
      %s = loops.reduce add (k = 8) : f32 {
        %a = loops.load %x[k + 8*k_block]
        %c = loops.load %w[k + 8*k_block, j]
        %p = arith.mulf %a, %c : f32
        loops.yield %p
      }
      %o = loops.load %y[j]
      %t = arith.addf %o, %s : f32
      loops.store %t, %y[j]
    }
  }
}
