import { useEffect, useRef, useState } from 'react';

/** A search field whose text is in the address. Each key stroke filters; the key `/` focuses it. */
export function SearchField(props: { id: string; label: string; value: string; onChange: (text: string) => void }) {
  // its own copy, because the address follows a moment later and must not move the cursor
  const [typed, setTyped] = useState(props.value);
  const sent = useRef(props.value);
  useEffect(() => {
    if (props.value !== sent.current) setTyped(props.value);
    sent.current = props.value;
  }, [props.value]);
  return (
    <input
      id={props.id}
      type="search"
      className="search"
      aria-label={props.label}
      placeholder={props.label}
      value={typed}
      onChange={(event) => {
        setTyped(event.target.value);
        sent.current = event.target.value;
        props.onChange(event.target.value);
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape' || event.key === 'Enter') event.currentTarget.blur();
      }}
    />
  );
}

export function focusField(id: string): void {
  const field = document.getElementById(id);
  const details = field?.closest('details');
  if (details) details.open = true;
  field?.focus();
}

export interface Option {
  value: string;
  text: string;
}

export function SelectField(props: {
  label: string;
  value: string;
  options: Option[];
  onChange: (value: string) => void;
}) {
  return (
    <label className="select">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.target.value)}>
        {props.options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.text}
          </option>
        ))}
      </select>
    </label>
  );
}
