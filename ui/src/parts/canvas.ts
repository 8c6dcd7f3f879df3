import { useEffect, type RefObject } from 'react';
import { useIsDark } from '../state/theme.ts';

/** The value of a color of the style sheet. */
export type ColorOf = (name: string) => string;

export type Draw = (context: CanvasRenderingContext2D, width: number, height: number, color: ColorOf) => void;

/** Draws a canvas after each change of the component, of its size and of the theme. Sizes are CSS pixels. */
export function useCanvas(element: RefObject<HTMLCanvasElement | null>, draw: Draw): void {
  const isDark = useIsDark();
  useEffect(() => {
    const canvas = element.current;
    if (canvas === null) return;
    const paint = () => paintCanvas(canvas, draw);
    const frame = requestAnimationFrame(paint);
    const observer = new ResizeObserver(paint);
    observer.observe(canvas);
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
    };
  }, [element, draw, isDark]);
}

function paintCanvas(canvas: HTMLCanvasElement, draw: Draw): void {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (width === 0 || height === 0) return;
  const scale = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext('2d');
  if (context === null) return;
  const style = getComputedStyle(canvas);
  const known = new Map<string, string>();
  const color = (name: string) => {
    let value = known.get(name);
    if (value === undefined) known.set(name, (value = style.getPropertyValue(name).trim()));
    return value;
  };
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.globalAlpha = 1;
  draw(context, width, height, color);
}
