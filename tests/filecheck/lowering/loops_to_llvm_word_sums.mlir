// RUN: ocannl-opt %s -t llvm{cpu=sapphirerapids} | filecheck %s --check-prefix VNNI
// RUN: ocannl-opt %s -t llvm{cpu=x86-64-v3} | filecheck %s --check-prefix AVX2
// RUN: ocannl-opt %s -t llvm{cpu=apple-m1} | filecheck %s --check-prefix DOT
// RUN: ocannl-opt %s -t llvm{cpu=cortex-a72} | filecheck %s --check-prefix NEON

// Four neighbours of both operands are a word. With VNNI, numbers with a sign get 128 more; what that adds is
// computed once for all rows, and is where sums begin.
loops.func @signed {
  %w = assign.node "w" on_device because "parameter" : memref<2x8x32xi8>
  %x = assign.node "x" on_device because "data" : memref<8x32xi8>
  %s = assign.node "s" on_device because "data" : memref<2x8xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<2xf32>
  loops.nest "y" (o = 2) schedule <order = (o), rows = o : 2, lanes = l : 8> {
    %sum = loops.reduce add (k = 8, l = 8) : f32 {
      %words = loops.reduce add (i = 4) : i32 {
        %a = loops.load %w[o, k, 4*l + i]
        %aw = arith.extsi %a : i8 to i32
        %b = loops.load %x[k, 4*l + i]
        %bw = arith.extsi %b : i8 to i32
        %p = arith.muli %aw, %bw : i32
        loops.yield %p
      }
      %f = arith.sitofp %words : i32 to f32
      %c = loops.load %s[o, k]
      %r = arith.mulf %f, %c : f32
      loops.yield %r
    }
    loops.store %sum, %y[o]
  }
}

// VNNI-LABEL: define internal void @"signed.y"
// VNNI: [[X:%v[0-9]+]] = load <32 x i8>
// VNNI-NEXT: [[XW:%v[0-9]+]] = bitcast <32 x i8> [[X]] to <8 x i32>
// VNNI-NEXT: load <32 x i8>
// VNNI: [[B:%v[0-9]+]] = call <8 x i32> @llvm.x86.avx512.vpdpbusd.256(<8 x i32> zeroinitializer, <8 x i32> splat (i32 -2139062144), <8 x i32> [[XW]])
// VNNI-NEXT: [[START:%v[0-9]+]] = sub <8 x i32> zeroinitializer, [[B]]
// VNNI-NEXT: [[MOVED:%v[0-9]+]] = xor <8 x i32>
// VNNI-NEXT: call <8 x i32> @llvm.x86.avx512.vpdpbusd.256(<8 x i32> [[START]], <8 x i32> [[MOVED]], <8 x i32> [[XW]])
// VNNI: load <32 x i8>
// VNNI-NOT: sub
// VNNI: xor <8 x i32>
// VNNI-NEXT: call <8 x i32> @llvm.x86.avx512.vpdpbusd.256(<8 x i32> [[START]],
// VNNI: sitofp <8 x i32>

// AVX2-LABEL: define internal void @"signed.y"
// AVX2: shl <16 x i16> {{.*}}, splat (i16 8)
// AVX2-NEXT: ashr <16 x i16> {{.*}}, splat (i16 8)
// AVX2: call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16>
// AVX2: call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16>
// AVX2-NEXT: add <8 x i32>

// DOT-LABEL: define internal void @"signed.y"
// DOT: call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> zeroinitializer, <16 x i8>
// DOT: shufflevector <4 x i32> {{.*}} <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>

// NEON-LABEL: define internal void @"signed.y"
// NEON: shl <4 x i32> {{.*}}, splat (i32 24)
// NEON-NEXT: ashr <4 x i32> {{.*}}, splat (i32 24)
// NEON: mul <4 x i32>
// NEON-NOT: sdot

// Halves of bytes have no sign, so that nothing has to be corrected; they may be read with one as well.
loops.func @halves {
  %w = assign.node "w" on_device because "parameter" : memref<8x32xui8>
  %x = assign.node "x" on_device because "data" : memref<8x32xi8>
  %y = assign.node "y" on_device because "computed by forward" : memref<8xi32>
  loops.nest "y" (k = 8) schedule <order = (k), lanes = l : 8> {
    %four = arith.constant 4 : i32
    %sum = loops.reduce add (l = 8) : i32 {
      %words = loops.reduce add (i = 4) : i32 {
        %a = loops.load %w[k, 4*l + i]
        %aw = arith.extui %a : i8 to i32
        %high = arith.shrsi %aw, %four : i32
        %b = loops.load %x[k, 4*l + i]
        %bw = arith.extsi %b : i8 to i32
        %p = arith.muli %high, %bw : i32
        loops.yield %p
      }
      loops.yield %words
    }
    loops.store %sum, %y[k]
  }
}

// VNNI-LABEL: define internal void @"halves.y"
// VNNI: [[H:%v[0-9]+]] = lshr <32 x i8> {{.*}}, splat (i8 4)
// VNNI: [[HW:%v[0-9]+]] = bitcast <32 x i8> [[H]] to <8 x i32>
// VNNI: call <8 x i32> @llvm.x86.avx512.vpdpbusd.256(<8 x i32> zeroinitializer, <8 x i32> [[HW]],

// AVX2-LABEL: define internal void @"halves.y"
// AVX2: lshr <32 x i8>
// AVX2: [[PAIRS:%v[0-9]+]] = call <16 x i16> @llvm.x86.avx2.pmadd.ub.sw(<32 x i8>
// AVX2-NEXT: call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> [[PAIRS]], <16 x i16> splat (i16 1))

// DOT-LABEL: define internal void @"halves.y"
// DOT: @llvm.aarch64.neon.sdot.v4i32.v16i8

// A short loop around sums of words stays a loop: the sums of all its points would not fit registers. On x86,
// sums of pairs are added up by the instruction that multiplies them with their scale.
loops.func @of_block {
  %w = assign.node "w" on_device because "parameter" : memref<8x4x32xui8>
  %x = assign.node "x" on_device because "data" : memref<4x32xi8>
  %s = assign.node "s" on_device because "data" : memref<8x4xui8>
  %y = assign.node "y" on_device because "computed by forward" : memref<8xi32>
  loops.nest "y" (o = 8) schedule <order = (o), rows = o : 8, lanes = l : 8> {
    %mask = arith.constant 15 : i32
    %sum = loops.reduce add (l = 8) : i32 {
      %block = loops.reduce add (p = 4) : i32 {
        %words = loops.reduce add (i = 4) : i32 {
          %a = loops.load %w[o, p, 4*l + i]
          %aw = arith.extui %a : i8 to i32
          %bits = arith.andi %aw, %mask : i32
          %b = loops.load %x[p, 4*l + i]
          %bw = arith.extsi %b : i8 to i32
          %q = arith.muli %bits, %bw : i32
          loops.yield %q
        }
        %c = loops.load %s[o, p]
        %cw = arith.extui %c : i8 to i32
        %r = arith.muli %words, %cw : i32
        loops.yield %r
      }
      loops.yield %block
    }
    loops.store %sum, %y[o]
  }
}

// VNNI-LABEL: define internal void @"of_block.y"
// VNNI-COUNT-8: call <16 x i16> @llvm.x86.avx2.pmadd.ub.sw(
// VNNI-NOT: vpdpbusd
// VNNI: [[BYTE:%v[0-9]+]] = zext i8 {{.*}} to i32
// VNNI: [[SCALE:%v[0-9]+]] = trunc i32 {{.*}} to i16
// VNNI: [[SPLAT:%v[0-9]+]] = shufflevector <16 x i16>
// VNNI: call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> {{.*}}, <16 x i16> [[SPLAT]])
// VNNI-NOT: mul <8 x i32>
// VNNI: icmp ult i64 {{%.*}}, 4
// VNNI: }

// AVX2-LABEL: define internal void @"of_block.y"
// AVX2-NOT: splat (i16 1)
// AVX2: }

// NEON-LABEL: define internal void @"of_block.y"
// NEON: mul <4 x i32>
// NEON: }
