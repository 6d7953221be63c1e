// RUN: ocannl-opt %s -t llvm | filecheck %s

// The rows of a large matrix that are read once are fetched one tile ahead, into the second-level cache: 2 rows of 2048
// elements further.
// CHECK-LABEL: define internal void @"long.y"
// CHECK:         [[ROW:%.*]] = getelementptr float, ptr {{%.*}}, i64 2048
// CHECK-NEXT:    load <16 x float>, ptr [[ROW]], align 4
// CHECK-NEXT:    [[NEXT:%.*]] = getelementptr float, ptr {{%.*}}, i64 4096
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[NEXT]], i32 0, i32 2, i32 1)
// CHECK-NEXT:    [[LAST:%.*]] = getelementptr float, ptr {{%.*}}, i64 6144
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[LAST]], i32 0, i32 2, i32 1)
loops.func @long attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<1024x2048xf32>
  %x = assign.node "x" constant : memref<2048xf32>
  %y = assign.node "y" on_device : memref<1024xf32>
  loops.nest "y" (o = 1024) schedule <order = (o), rows = o : 2, lanes = k : 16> {
    %r = loops.reduce add (k = 2048) : f32 {
      %a = loops.load %w[o, k]
      %b = loops.load %x[k]
      %p = arith.mulf %a, %b : f32
      loops.yield %p
    }
    loops.store %r, %y[o]
  }
}

// Rows that are too short to be streams by themselves are read in as many parts as a tile has rows, each of 2048 rows
// here, and fetched a row ahead.
// CHECK-LABEL: define internal void @"large.y"
// CHECK:         [[ROW:%.*]] = getelementptr float, ptr {{%.*}}, i64 1048576
// CHECK-NEXT:    load <16 x float>, ptr [[ROW]], align 4
// CHECK-NEXT:    [[NEXT:%.*]] = getelementptr float, ptr {{%.*}}, i64 512
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[NEXT]], i32 0, i32 2, i32 1)
// CHECK-NEXT:    [[LAST:%.*]] = getelementptr float, ptr {{%.*}}, i64 1049088
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[LAST]], i32 0, i32 2, i32 1)
// CHECK:         store float {{%.*}}, ptr {{%.*}}, align 4
// CHECK-NEXT:    getelementptr float, ptr {{%.*}}, i64 2048
loops.func @large attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<4096x512xf32>
  %x = assign.node "x" constant : memref<512xf32>
  %y = assign.node "y" on_device : memref<4096xf32>
  loops.nest "y" (o = 4096) schedule <order = (o), rows = o : 2, lanes = k : 16> {
    %r = loops.reduce add (k = 512) : f32 {
      %a = loops.load %w[o, k]
      %b = loops.load %x[k]
      %p = arith.mulf %a, %b : f32
      loops.yield %p
    }
    loops.store %r, %y[o]
  }
}

// So are those of smaller ones that a routine reads as much of.
// CHECK-LABEL: define internal void @"several.y"
// CHECK:         call void @llvm.prefetch.p0(ptr {{%.*}}, i32 0, i32 2, i32 1)
loops.func @several attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<2048x512xf32>
  %v = assign.node "v" constant : memref<2048x512xf32>
  %x = assign.node "x" constant : memref<512xf32>
  %y = assign.node "y" on_device : memref<2048xf32>
  %z = assign.node "z" on_device : memref<2048xf32>
  loops.nest "y" (o = 2048) schedule <order = (o), rows = o : 2, lanes = k : 16> {
    %r = loops.reduce add (k = 512) : f32 {
      %a = loops.load %w[o, k]
      %b = loops.load %x[k]
      %p = arith.mulf %a, %b : f32
      loops.yield %p
    }
    loops.store %r, %y[o]
  }
  loops.nest "z" (o = 2048) schedule <order = (o), rows = o : 2, lanes = k : 16> {
    %r = loops.reduce add (k = 512) : f32 {
      %a = loops.load %v[o, k]
      %b = loops.load %x[k]
      %p = arith.mulf %a, %b : f32
      loops.yield %p
    }
    loops.store %r, %z[o]
  }
}

// Those of a small one, and what all tiles read, are in the caches.
// CHECK-LABEL: define internal void @"small.y"
// CHECK-NOT:     @llvm.prefetch
// CHECK:       }
loops.func @small attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<2048x512xf32>
  %x = assign.node "x" constant : memref<512xf32>
  %y = assign.node "y" on_device : memref<3x2048xf32>
  loops.nest "y" (b = 3, o = 2048) schedule <order = (b, o), rows = o : 2, lanes = k : 16> {
    %r = loops.reduce add (k = 512) : f32 {
      %a = loops.load %w[o, k]
      %b1 = loops.load %x[k]
      %p = arith.mulf %a, %b1 : f32
      loops.yield %p
    }
    loops.store %r, %y[b, o]
  }
}

// A product of matrices fetches the rows of the next tile into the second-level cache, once for four neighbouring
// columns: 2 rows of 1700 elements further.
// CHECK-LABEL: define internal void @"product.y"
// CHECK:         [[AT:%.*]] = getelementptr float, ptr [[BASE:%.*]], i64 3400
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[AT]], i32 0, i32 2, i32 1)
// CHECK-NEXT:    [[LAST:%.*]] = getelementptr float, ptr [[BASE]], i64 5100
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[LAST]], i32 0, i32 2, i32 1)
// CHECK-NOT:     i32 2, i32 1)
// CHECK:       }
loops.func @product attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<1700x1700xf32>
  %w = assign.node "w" constant : memref<1700x8xf32>
  %y = assign.node "y" on_device : memref<1700x8xf32>
  loops.nest "y" (b = 1700, o = 8) schedule <order = (o, b), rows = b : 2, lanes = o : 8> {
    %r = loops.reduce add (k = 1700) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %r, %y[b, o]
  }
}

// Not where so few lines of the cache could hold rows of both tiles, nor where the next tile has the same rows.
// CHECK-LABEL: define internal void @"other_products.y"
// CHECK-NOT:     i32 2, i32 1)
// CHECK-LABEL: define internal void @"other_products.z"
// CHECK-NOT:     i32 2, i32 1)
// CHECK:       }
loops.func @other_products attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<2048x2048xf32>
  %v = assign.node "v" constant : memref<1700x1700xf32>
  %w = assign.node "w" constant : memref<2048x16xf32>
  %y = assign.node "y" on_device : memref<2048x16xf32>
  %z = assign.node "z" on_device : memref<1700x16xf32>
  loops.nest "y" (b = 2048, o = 16) schedule <order = (o, b), rows = b : 6, lanes = o : 16> {
    %r = loops.reduce add (k = 2048) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %r, %y[b, o]
  }
  loops.nest "z" (b = 1700, o = 16) schedule <order = (b, o), rows = b : 6, lanes = o : 8> {
    %r = loops.reduce add (k = 1700) : f32 {
      %a = loops.load %v[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %r, %z[b, o]
  }
}

// What two sums read is fetched once, behind the loads of both: LLVM loads it once where nothing is between these.
// CHECK-LABEL: define internal void @"halves.y"
// CHECK-COUNT-2: call void @llvm.prefetch.p0(ptr
// CHECK-NOT:     = load <
// CHECK:         br i1
// CHECK-NOT:     @llvm.prefetch
// CHECK:       }
loops.func @halves attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<65536x8x32xui8>
  %x = assign.node "x" constant : memref<2x8x32xi8>
  %y = assign.node "y" on_device : memref<65536xi32>
  loops.nest "y" (o = 65536) schedule <order = (o), rows = o : 2, lanes = l : 8> {
    %mask = arith.constant 15 : i32
    %four = arith.constant 4 : i32
    %r = loops.reduce add (k = 8, l = 8) : i32 {
      %low = loops.reduce add (i = 4) : i32 {
        %a = loops.load %w[o, k, 4*l + i]
        %aw = arith.extui %a : i8 to i32
        %bits = arith.andi %aw, %mask : i32
        %b = loops.load %x[0, k, 4*l + i]
        %bw = arith.extsi %b : i8 to i32
        %p = arith.muli %bits, %bw : i32
        loops.yield %p
      }
      %high = loops.reduce add (j = 4) : i32 {
        %a = loops.load %w[o, k, 4*l + j]
        %aw = arith.extui %a : i8 to i32
        %bits = arith.shrsi %aw, %four : i32
        %b = loops.load %x[1, k, 4*l + j]
        %bw = arith.extsi %b : i8 to i32
        %p = arith.muli %bits, %bw : i32
        loops.yield %p
      }
      %both = arith.addi %low, %high : i32
      loops.yield %both
    }
    loops.store %r, %y[o]
  }
}

// Sums in blocks fetch it in the loop inside of them.
// CHECK-LABEL: define internal void @"blocked.y"
// CHECK:       loop3:
// CHECK-NOT:   loop3.end:
// CHECK:         call void @llvm.prefetch.p0(ptr
// CHECK-NOT:     = load <
// CHECK:       loop3.end:
// CHECK-NOT:     @llvm.prefetch
// CHECK:       }
loops.func @blocked attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<8192x1024xf32>
  %x = assign.node "x" constant : memref<2x1024xf32>
  %y = assign.node "y" on_device : memref<8192xf32>
  loops.nest "y" (o = 8192) schedule <order = (o), rows = o : 2, lanes = k : 8> {
    %r = loops.reduce add (k = 1024) blocks 16 : f32 {
      %a = loops.load %w[o, k]
      %b = loops.load %x[0, k]
      %c = loops.load %w[o, k]
      %d = loops.load %x[1, k]
      %p = arith.mulf %a, %b : f32
      %q = arith.mulf %c, %d : f32
      %s = arith.addf %p, %q : f32
      loops.yield %s
    }
    loops.store %r, %y[o]
  }
}

// What a step of an outer loop reads is fetched at its end, not in loops inside of it; and that of a remainder in its
// branch.
// CHECK-LABEL: define internal void @"outside.y"
// CHECK:       loop2:
// CHECK-NOT:     @llvm.prefetch
// CHECK:       loop2.end:
// CHECK-COUNT-2: call void @llvm.prefetch.p0(ptr
// CHECK-NOT:     @llvm.prefetch
// CHECK:       loop1.end:
// CHECK-NOT:     @llvm.prefetch
// CHECK:       [[REST:if[0-9]+]]:
// CHECK:         call void @llvm.prefetch.p0(ptr
// CHECK-NOT:     @llvm.prefetch
// CHECK:       [[REST]].end:
// CHECK-NOT:     @llvm.prefetch
// CHECK:       }
loops.func @outside attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<262145x8xf32>
  %x = assign.node "x" constant : memref<2x8xf32>
  %v = assign.node "v" constant : memref<512xf32>
  %y = assign.node "y" on_device : memref<262145xf32>
  loops.nest "y" (o = 262145) schedule <order = (o), parallel = (o : 4096), rows = o : 2, lanes = k : 8> {
    %r = loops.reduce add (k = 8) : f32 {
      %a = loops.load %w[o, k]
      %b = loops.load %x[0, k]
      %c = loops.load %w[o, k]
      %d = loops.load %x[1, k]
      %p = arith.mulf %a, %b : f32
      %q = arith.mulf %c, %d : f32
      %s = arith.addf %p, %q : f32
      loops.yield %s
    }
    %m = loops.reduce max (j = 512) : f32 {
      %e = loops.load %v[j]
      %f = arith.mulf %e, %r : f32
      loops.yield %f
    }
    loops.store %m, %y[o]
  }
}

// Whole bytes that are multiplied as words are read in as many parts as a tile has rows, as floats are: each of 4096
// rows here, fetched 1024 bytes ahead.
// CHECK-LABEL: define internal void @"bytes.y"
// CHECK:         [[SECOND:%.*]] = getelementptr i8, ptr [[BASE:%.*]], i64 4194304
// CHECK:         load <32 x i8>, ptr [[SECOND]], align 1
// CHECK:         [[NEXT:%.*]] = getelementptr i8, ptr {{%.*}}, i64 1024
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[NEXT]], i32 0, i32 2, i32 1)
loops.func @bytes attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<8192x1024xi8>
  %x = assign.node "x" constant : memref<1024xi8>
  %y = assign.node "y" on_device : memref<8192xi32>
  loops.nest "y" (o = 8192) schedule <order = (o), rows = o : 2, lanes = l : 8> {
    %r = loops.reduce add (l = 256) : i32 {
      %words = loops.reduce add (i = 4) : i32 {
        %a = loops.load %w[o, 4*l + i]
        %aw = arith.extsi %a : i8 to i32
        %b = loops.load %x[4*l + i]
        %bw = arith.extsi %b : i8 to i32
        %p = arith.muli %aw, %bw : i32
        loops.yield %p
      }
      loops.yield %words
    }
    loops.store %r, %y[o]
  }
}

// Integers that are decoded are read in order, and fetched some tiles ahead: 8 of 2 rows of 512.
// CHECK-LABEL: define internal void @"decoded.y"
// CHECK:         [[NEXT:%.*]] = getelementptr i8, ptr {{%.*}}, i64 8192
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[NEXT]], i32 0, i32 2, i32 1)
// CHECK-NEXT:    [[LAST:%.*]] = getelementptr i8, ptr {{%.*}}, i64 8704
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[LAST]], i32 0, i32 2, i32 1)
loops.func @decoded attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<16384x512xi8>
  %x = assign.node "x" constant : memref<512xf32>
  %y = assign.node "y" on_device : memref<16384xf32>
  loops.nest "y" (o = 16384) schedule <order = (o), rows = o : 2, lanes = k : 16> {
    %r = loops.reduce add (k = 512) : f32 {
      %a = loops.load %w[o, k]
      %f = arith.sitofp %a : i8 to f32
      %b = loops.load %x[k]
      %p = arith.mulf %f, %b : f32
      loops.yield %p
    }
    loops.store %r, %y[o]
  }
}
